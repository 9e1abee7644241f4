"""What networks are trained on: data sets and their targets."""
