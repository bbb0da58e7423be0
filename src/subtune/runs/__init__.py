"""Runs: training those that are missing, and the records they leave."""
