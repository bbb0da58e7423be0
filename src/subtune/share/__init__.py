"""Recorded runs for others: exported models with their cards, and predictions for a table."""
