"""What Python code calls: models loaded by name, put under conditions, and run on texts."""
