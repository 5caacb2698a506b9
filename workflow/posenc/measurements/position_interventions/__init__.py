"""Where is position lost, and which layers need it? Its mean part removed and injected (C5)."""
