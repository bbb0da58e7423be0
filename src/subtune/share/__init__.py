"""Use recorded runs: export models with model cards, and predict new data."""

# The default time limit of a comparison, and of retraining after cross-validation.
DEFAULT_MINUTES = 10
