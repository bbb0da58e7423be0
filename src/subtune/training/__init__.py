"""Training: the recipe for runs side by side, the values of each run, and sweeps."""
