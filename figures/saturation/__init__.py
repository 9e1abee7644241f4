"""The saturation theorems as pictures."""
