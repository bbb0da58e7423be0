"""Benchmarks of training and Fisher information, compared with other code in the same run."""
