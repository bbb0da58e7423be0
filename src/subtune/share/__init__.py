"""Use recorded runs: export models with model cards, and predict new data."""
