"""Benchmarks of training and Fisher information, beside their peers in the same run."""
