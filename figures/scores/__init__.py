"""One theory for every score function."""
