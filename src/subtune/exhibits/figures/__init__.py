"""The papers' figures, each drawn from one table of numbers."""
