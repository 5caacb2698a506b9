"""One thin command for each rule: it opens files, calls the mathematics, and writes files."""
