"""Compare a learning-rate sweep with the Trainer and with subtune, one by one or side by side."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import inputs, trainer
from benchmarks.trainer import Outcome
from subtune.training.groups import train_side_by_side
from subtune.training.recipe import Run


def measure(
    glue_dir: Path, tasks: Sequence[str], epochs: int, rows: int | None
) -> Iterator[dict[str, Any]]:
    """Measure LayerNorm tuning at four learning rates on GLUE tasks, with a row per task and way.

    The runs side by side are measured between the other runs, so that a slow drift of the machine's
    speed affects all results equally.
    """
    for task in tasks:
        setting = inputs.load_glue(task, glue_dir, train=rows, others=rows)
        runs = inputs.runs_of_method(setting.model, "layernorm", inputs.LEARNING_RATES, epochs)
        ways: dict[str, list[Outcome]] = {
            "Trainer loop": [],
            "subtune, one by one": [],
            "subtune, side by side": [],
        }
        peers, alone, side_by_side = ways.values()
        for number, run in enumerate(runs):
            if number == len(runs) // 2:
                side_by_side += _train_with_subtune(setting, runs)
            peers.append(trainer.train(setting, run))
            alone += _train_with_subtune(setting, [run])
        tokens = int(setting.examples["train"].lengths.sum()) * epochs * len(runs)
        for way, outcomes in ways.items():
            seconds = sum(outcome.seconds for outcome in outcomes)
            yield {
                "task": setting.task.title,
                "way": way,
                "seconds": seconds,
                "tokens_per_second": tokens / seconds,
                "scores": [round(outcome.score, 3) for outcome in outcomes],
                "times_faster": sum(outcome.seconds for outcome in peers) / seconds,
            }


def _train_with_subtune(setting: inputs.Setting, runs: list[Run]) -> list[Outcome]:
    """Train runs side by side, as a job does."""
    shared = setting.model, setting.examples, setting.task
    return [
        Outcome(run.best.first_score, sum(row["seconds"] for row in run.history))
        for run in train_side_by_side(*shared, runs, lambda line: None)
    ]
