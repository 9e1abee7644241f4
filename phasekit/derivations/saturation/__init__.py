"""The saturation theorems of softmax and SSA, proven step by step (docs/saturation.md)."""
