"""Rules for `top` selections. The entries with the highest scores are trained."""


def gem(weight, gradient):
    """Score entries by the size of the gradient relative to the weight."""
    return abs(gradient) / (abs(weight) + 1e-8)


def least_gradient(gradient):
    """Score entries by how small the gradient is: the reverse of `gradient`."""
    return -abs(gradient)


def least_fisher(fisher):
    """Score entries by how small the Fisher information is: the reverse of `fisher`."""
    return -fisher
