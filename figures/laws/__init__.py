"""How thresholds grow with V and L."""
