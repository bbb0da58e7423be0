"""Compare a learning-rate sweep with the Trainer and with subtune, one by one or side by side."""

from pathlib import Path
from typing import Any

from benchmarks import inputs, trainer
from benchmarks.measurements import flops_per_token
from benchmarks.trainer import Outcome
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import Run


def measure(
    glue_dir: Path, tasks: list[str], epochs: int, rows: int | None
) -> list[dict[str, Any]]:
    """Measure LayerNorm tuning at four learning rates on GLUE tasks, with a row per task and way.

    The runs side by side are measured between the other runs, so that a slow drift of the machine's
    speed affects all results equally.
    """
    settings = (inputs.load_glue(task, glue_dir, train=rows, others=rows) for task in tasks)
    return [row for setting in settings for row in _measure_task(setting, epochs)]


def _measure_task(setting: inputs.Setting, epochs: int) -> list[dict[str, Any]]:
    members = inputs.runs_of_method(setting.model, inputs.LEARNING_RATES, epochs, "layernorm")
    peers: list[Outcome] = []
    alone: list[Outcome] = []
    side_by_side: list[Outcome] = []
    for number, member in enumerate(members):
        if number == len(members) // 2:
            side_by_side = _train_with_subtune(setting, members)
        peers.append(trainer.train(setting, member))
        alone += _train_with_subtune(setting, [member])
    ways = {
        "Trainer loop": peers,
        "subtune, one by one": alone,
        "subtune, side by side": side_by_side,
    }
    tokens = int(setting.examples["train"].lengths.sum()) * epochs * len(members)
    flops = tokens * flops_per_token(setting, members[0])
    return [
        {
            "task": setting.task.title,
            "way": way,
            "seconds": seconds,
            "tokens_per_second": tokens / seconds,
            "flops_per_second": flops / seconds,
            "scores": [outcome.score for outcome in outcomes],
            "times_faster": _seconds(peers) / seconds,
        }
        for way, outcomes in ways.items()
        for seconds in [_seconds(outcomes)]
    ]


def _seconds(outcomes: list[Outcome]) -> float:
    return sum(outcome.seconds for outcome in outcomes)


def _train_with_subtune(setting: inputs.Setting, members: list[Run]) -> list[Outcome]:
    """Train runs side by side, as a job does."""
    named = {str(number): member for number, member in enumerate(members)}
    results = dict(
        train_side_by_side(setting.model, setting.examples, setting.task, named, lambda line: None)
    )
    return [
        Outcome(
            results[name].best.first_score, sum(row["seconds"] for row in results[name].history)
        )
        for name in named
    ]
