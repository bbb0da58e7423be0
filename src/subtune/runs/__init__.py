"""Specs of runs, records of runs, and learning-rate searches."""
