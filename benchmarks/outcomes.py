"""Scores and times of trained runs, by subtune and by other code."""

from dataclasses import dataclass

import torch

from benchmarks.inputs import Setting
from subtune.training.recipe import Member
from subtune.training.results import Result
from subtune.training.sweeps import train_sweep


@dataclass(frozen=True)
class Outcome:
    """One run's best dev score over epochs, the dev loss (mean over examples) at that epoch, and
    the seconds that training took, evaluation included."""

    score: float
    loss: float
    seconds: float


def ours(setting: Setting, members: list[Member]) -> list[Outcome]:
    """Train the members as a job trains a sweep; return their outcomes."""
    named = {str(number): member for number, member in enumerate(members)}
    results = dict(
        train_sweep(setting.model, setting.examples, setting.task, named, lambda line: None)
    )
    return [_outcome(setting, results[name]) for name in named]


def _outcome(setting: Setting, result: Result) -> Outcome:
    return Outcome(
        score=result.best.first_score,
        loss=_dev_loss(setting, result),
        seconds=sum(row["seconds"] for row in result.history),
    )


def _dev_loss(setting: Setting, result: Result) -> float:
    split = setting.task.evaluation[0]
    labels = torch.from_numpy(setting.examples[split].labels)
    logits = torch.from_numpy(result.best.predictions[split])[None]
    losses = setting.task.of_kind.losses(logits, labels, torch.arange(len(labels)))
    return losses.item() / len(labels)
