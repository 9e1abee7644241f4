"""What tells a jump from a crossover: hysteresis, free energies, susceptibility."""
