"""One package an experiment: its networks, its trials, and the summary over seeds."""
