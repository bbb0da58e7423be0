"""Rules for `top` selections. The entries with the highest scores are trained."""


def gem(weight, gradient):
    """Score entries by the size of the gradient relative to the weight."""
    return abs(gradient) / (abs(weight) + 1e-8)
