"""The posterior over attention matrices, beside sampled heads."""
