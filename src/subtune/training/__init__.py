"""Training: the recipe for runs that train side by side, their trained values, and sweeps."""
