"""What finite data add to the theory of one model."""
