"""Functions that return estimators, for `baselines`."""

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


def make():
    """Build logistic regression on hashed words, which reads texts."""
    return make_pipeline(HashingVectorizer(n_features=2**16), LogisticRegression())
