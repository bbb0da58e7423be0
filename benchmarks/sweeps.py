"""LayerNorm at four learning rates on real GLUE: Trainer in a loop, ours one by one, ours fused."""

from pathlib import Path
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from benchmarks import inputs, trainer
from benchmarks.outcomes import Outcome, ours
from subtune.data.batches import Rows
from subtune.training.recipe import Member, train

FEW_ROWS = 64


def measure(
    glue_dir: Path, tasks: list[str], epochs: int, rows: int | None
) -> list[dict[str, Any]]:
    """One row per task and way: seconds of the sweep, tokens per second, every dev score.

    The ways take turns, so that a machine whose speed drifts is the same to all.
    """
    return [row for task in tasks for row in _task(inputs.glue(task, glue_dir, rows), epochs)]


def _task(setting: inputs.Setting, epochs: int) -> list[dict[str, Any]]:
    members = inputs.members(setting.model, inputs.LEARNING_RATES, epochs, "layernorm")
    peers, alone = [], []
    for member in members:
        peers.append(trainer.train(setting, member))
        alone += ours(setting, [member])
    fused = ours(setting, members)
    ways: dict[str, list[Outcome]] = {
        "Trainer loop": peers,
        "subtune, one by one": alone,
        f"subtune, {len(members)} side by side": fused,
    }
    tokens = int(setting.rows["train"].lengths.sum()) * epochs * len(members)
    flops = tokens * _flops_per_token(setting, members[0])
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


def _flops_per_token(setting: inputs.Setting, member: Member) -> float:
    """Products that a run needs for a token of training, padding and evaluation left out."""
    few = {split: Rows(setting.tokens[split].select(range(1))) for split in setting.task.evaluation}
    few["train"] = Rows(setting.tokens["train"].select(range(FEW_ROWS)))
    with FlopCounterMode(display=False) as counter:
        train(setting.model, few, setting.task, [member])
    tokens = few["train"].lengths.sum() * member.recipe.epochs
    return counter.get_total_flops() / int(tokens)
