"""How many samples a jump takes: P* for every normalised score, and its laws in each regime of t = Pσ_w²/(κV)."""
