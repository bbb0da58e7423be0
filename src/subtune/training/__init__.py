"""Training: batches, trainable entries, the recipe of one run, and sweeps of runs."""
