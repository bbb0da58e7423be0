"""The recipe of one run, readable from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune import metrics
from subtune.models.encoder import EncoderClassifier, reset_classifier
from subtune.selection import Entries
from subtune.specs import Recipe
from subtune.tasks import Task
from subtune.training.batches import Rows, in_length_order, shuffled, split_by_length
from subtune.training.delta import Delta
from subtune.training.part import Part
from subtune.training.trainable import bound, merged


@dataclass(frozen=True)
class Result:
    """What one run leaves behind.

    ``history`` has one row per epoch: ``epoch`` (from 1), ``train_loss`` (mean over examples),
    ``seconds`` and ``<split>/<metric>`` scores. ``logits`` ``[examples, num_labels]``, ``delta``
    and ``changes`` (tensor name to mean |change| and size) are those of the best epoch.
    """

    history: list[dict[str, float]]
    best_epoch: int
    scores: dict[str, dict[str, float]]
    logits: dict[str, np.ndarray]
    delta: Delta
    changes: dict[str, tuple[float, int]]
    trainable: int


def train(
    model: EncoderClassifier,
    rows: Mapping[str, Rows],
    task: Task,
    entries: Entries,
    recipe: Recipe,
    seed: int,
    report: Callable[[str], None] = lambda line: None,
) -> Result:
    """Fine-tune ``entries`` of a pretrained model and give the model back as it was.

    The best epoch is the first with the highest score: the task's first metric on its first
    evaluation split. A run whose loss is no longer finite ends there.

    Args:
        model: pretrained, on its device; its classifier is drawn anew from ``seed``.
        rows: the training split and the task's evaluation splits.
        task: decides loss and metrics.
        entries: which numbers train.
        recipe: how.
        seed: decides the classifier, what low-rank updates start from, the order of examples and
            dropout.
        report: is told one line per epoch.
    """
    torch.manual_seed(seed)
    reset_classifier(model, seed)
    order = np.random.default_rng(seed)
    chosen = rows_that_train(len(rows["train"]), recipe, order)
    steps = math.ceil(len(chosen) / recipe.batch_size) * recipe.epochs
    history: list[dict[str, float]] = []
    best: Result | None = None

    with bound(model, entries, seed) as trained:
        leaves = [leaf for part in trained for leaf in part.leaves]
        optimizer = torch.optim.AdamW(
            leaves, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
        )
        step = 0
        for epoch in range(1, recipe.epochs + 1):
            started = time.monotonic()
            model.train()
            total = 0.0
            for batch in shuffled(len(chosen), recipe.batch_size, order):
                loss = _gradients(model, rows["train"], chosen[batch], task, recipe, trained)
                torch.nn.utils.clip_grad_norm_(leaves, recipe.max_grad_norm)
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate_at(step, steps, recipe)
                optimizer.step()
                optimizer.zero_grad()
                for part in trained:
                    part.write()
                total += loss
                step += 1
            with merged(trained):
                logits = {split: predict(model, rows[split], recipe) for split in task.evaluation}
            scores = {
                split: metrics.score(task, logits[split], rows[split].labels) for split in logits
            }
            history.append(
                {"epoch": epoch, "train_loss": total / len(chosen)}
                | {"seconds": time.monotonic() - started}
                | {f"{split}/{name}": v for split in scores for name, v in scores[split].items()}
            )
            score = scores[task.evaluation[0]][task.metrics[0]]
            report(
                f"epoch {epoch}/{recipe.epochs}  loss {history[-1]['train_loss']:.4f}  "
                f"{task.metrics[0]} {score:.4f}  {history[-1]['seconds']:.1f} s"
            )
            if best is None or score > best.scores[task.evaluation[0]][task.metrics[0]]:
                best = Result(
                    history=history,
                    best_epoch=epoch,
                    scores=scores,
                    logits=logits,
                    delta={name: value for part in trained for name, value in part.delta().items()},
                    changes={part.name: _change(part) for part in trained},
                    trainable=sum(leaf.numel() for leaf in leaves),
                )
            if not math.isfinite(total):
                report("the loss is no longer finite: this run ends here")
                break
    assert best is not None
    return best


def rows_that_train(n: int, recipe: Recipe, generator: np.random.Generator) -> np.ndarray:
    """Which of a training set's ``n`` rows train; the generator is that of the run's seed."""
    return generator.permutation(n)[: recipe.train_rows]


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of step 0, 1, …: a linear warm-up, then constant or linear to 0."""
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)


def predict(model: EncoderClassifier, rows: Rows, recipe: Recipe) -> np.ndarray:
    """Logits ``[examples, num_labels]`` of every row, in the rows' order, without dropout."""
    model.eval()
    device = model.classifier.weight.device
    logits = np.empty((len(rows), model.classifier.out_features), dtype=np.float32)
    with torch.inference_mode(), _autocast(device, recipe):
        for index in in_length_order(rows.lengths):
            logits[index] = model(rows.batch(index, device)).float().cpu().numpy()
    return np.nan_to_num(logits)


def loss_of(task: Task, logits: Tensor, labels: Tensor) -> Tensor:
    """Sum over examples of the cross-entropy, or of the squared error of a regression."""
    if task.is_regression:
        return functional.mse_loss(logits.squeeze(1), labels, reduction="sum")
    return functional.cross_entropy(logits, labels, reduction="sum")


def labels_of(rows: Rows, index: np.ndarray, task: Task, device: torch.device) -> Tensor:
    """Labels ``[n]`` of the rows in ``index``: class numbers, or real scores."""
    dtype = torch.float32 if task.is_regression else torch.int64
    return torch.from_numpy(rows.labels[index]).to(device, dtype)


def _gradients(
    model: EncoderClassifier,
    rows: Rows,
    batch: np.ndarray,
    task: Task,
    recipe: Recipe,
    trained: list[Part],
) -> float:
    """Leave the gradient of the batch's mean loss in the leaves; return the summed loss."""
    device = model.classifier.weight.device
    total = 0.0
    for index in split_by_length(batch, rows.lengths):
        with _autocast(device, recipe):
            logits = model(rows.batch(index, device)).float()
            loss = loss_of(task, logits, labels_of(rows, index, task, device))
        (loss / len(batch)).backward()
        total += loss.item()
    for part in trained:
        part.collect_gradient()
    return total


def _autocast(device: torch.device, recipe: Recipe) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16")


def _change(part: Part) -> tuple[float, int]:
    """Mean |change| over the whole tensor (LayerNorm paper, Eq. 1) and the tensor's size."""
    change = part.change().abs().mean(dtype=torch.float64)
    return change.item(), part.tensor.numel()
