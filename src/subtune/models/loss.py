"""What training makes small.

Shapes: ``k`` runs, ``n`` examples.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.tasks import TaskSpec


def losses_of(task: TaskSpec, logits: Tensor, labels: Tensor) -> Tensor:
    """Each run's sum ``[k]`` over examples: cross-entropy, or squared error of a regression.

    Args:
        task: decides which.
        logits: ``[k, n, num_labels]``.
        labels: ``[n]``.
    """
    if task.is_regression:
        return (logits.squeeze(2) - labels).square().sum(1)
    per_run = labels.expand(len(logits), -1)
    return functional.cross_entropy(logits.mT, per_run, reduction="none").sum(1)


def labels_of(labels: np.ndarray, task: TaskSpec, device: torch.device) -> Tensor:
    """Labels ``[n]`` as `losses_of` reads them: class numbers, or real scores."""
    dtype = torch.float32 if task.is_regression else torch.int64
    return torch.from_numpy(labels).to(device, dtype)
