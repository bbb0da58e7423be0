"""LayerNorm at four learning rates on real GLUE: the Trainer in a loop, subtune one by one and side
by side."""

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
    """Return one row per task and way: seconds of the sweep, tokens per second, all dev scores.

    Runs side by side are measured in the middle of the others, so that a slow change of the
    machine's speed affects all ways alike.
    """
    settings = (inputs.glue(task, glue_dir, train=rows, others=rows) for task in tasks)
    return [row for setting in settings for row in _task(setting, epochs)]


def _task(setting: inputs.Setting, epochs: int) -> list[dict[str, Any]]:
    members = inputs.members(setting.model, inputs.LEARNING_RATES, epochs, "layernorm")
    peers: list[Outcome] = []
    alone: list[Outcome] = []
    fused: list[Outcome] = []
    for number, member in enumerate(members):
        if number == len(members) // 2:
            fused = ours(setting, members)
        peers.append(trainer.train(setting, member))
        alone += ours(setting, [member])
    ways = {
        "Trainer loop": peers,
        "subtune, one by one": alone,
        "subtune, side by side": fused,
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


def ours(setting: inputs.Setting, members: list[Run]) -> list[Outcome]:
    """Train the members as a job trains a sweep; return their outcomes."""
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
