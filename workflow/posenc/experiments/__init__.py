"""One package per experiment: its networks, its trials, and the summary over seeds."""
