"""What training makes small.

Shapes: ``k`` runs, ``n`` examples.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.data.batches import Rows
from subtune.tasks import Task


def losses_of(task: Task, logits: Tensor, labels: Tensor) -> Tensor:
    """Each run's sum ``[k]`` over examples: cross-entropy, or squared error of a regression.

    Args:
        task: decides which.
        logits: ``[k, n, num_labels]``.
        labels: ``[n]``.
    """
    if task.is_regression:
        return (logits.squeeze(2) - labels).square().sum(1)
    every = labels.expand(len(logits), -1)
    return functional.cross_entropy(logits.mT, every, reduction="none").sum(1)


def labels_of(rows: Rows, index: np.ndarray, task: Task, device: torch.device) -> Tensor:
    """Labels ``[n]`` of the rows in ``index``: class numbers, or real scores."""
    dtype = torch.float32 if task.is_regression else torch.int64
    return torch.from_numpy(rows.labels[index]).to(device, dtype)
