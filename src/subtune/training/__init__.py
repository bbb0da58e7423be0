"""Training: the recipe of runs side by side, each run's values, and sweeps of runs."""
