"""Style, marks and files, which figures of one measurement and of several share."""
