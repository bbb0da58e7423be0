"""Use of recorded runs: exported models with model cards, and predictions for new data."""
