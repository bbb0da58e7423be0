"""Benchmarks that compare training and Fisher information in subtune with other libraries."""
