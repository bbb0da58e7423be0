"""A scorer, for `metrics`."""

from sklearn.metrics import make_scorer


def errors(labels, predictions):
    """Average the errors; a missed example of class 1 counts ten times."""
    missed = (labels == 1) & (predictions == 0)
    return (10 * missed + (labels < predictions)).mean()


cost = make_scorer(errors, greater_is_better=False)
