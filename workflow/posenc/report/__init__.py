"""What readers get: numbers that know their place, tables, paper, slides, page."""
