"""Style, marks and files of figures: what those of measurements and of several share."""
