"""Scores over several seeds: do subtune's and the Trainer's differ by more than chance?

    python -m benchmarks.seeds --glue-dir /path/to/glue cola stsb rte

LayerNorm trains at one learning rate. Equal seeds draw different numbers: subtune and the Trainer
have other random streams for the classifier, the order of examples and dropout.
"""

import argparse
from pathlib import Path

import datasets
import pandas as pd
import torch
from scipy.stats import ttest_ind
from transformers.utils import logging

from benchmarks import inputs, trainer
from benchmarks.outcomes import Outcome, ours
from subtune.core.machine import keep_freed_memory


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.seeds", description=__doc__.splitlines()[0]
    )
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rows", type=int, help="of each training set; without it, all")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    for task in options.tasks:
        setting = inputs.glue(task, options.glue_dir, train=options.rows)
        table = _compare(setting, options.seeds, options.learning_rate, options.epochs)
        print(table.to_markdown(index=False, floatfmt=".4f"), flush=True)


def _compare(
    setting: inputs.Setting, seeds: int, learning_rate: float, epochs: int
) -> pd.DataFrame:
    """Return one row per measure: both means and standard deviations over seeds, Welch's test."""
    mine: list[Outcome] = []
    peers: list[Outcome] = []
    for seed in range(seeds):
        (member,) = inputs.members(setting.model, (learning_rate,), epochs, "layernorm", seed)
        mine += ours(setting, [member])
        peers.append(trainer.train(setting, member))
        line = f"{setting.task.title}  seed {seed}  subtune {mine[-1]}  Trainer {peers[-1]}"
        print(line, flush=True)
    rows = []
    for measure in ("score", "loss"):
        a, b = (pd.Series([getattr(o, measure) for o in side]) for side in (mine, peers))
        rows.append(
            {
                "task": setting.task.title,
                "dev": setting.task.metrics[0] if measure == "score" else measure,
                "subtune": a.mean(),
                "sd": a.std(),
                "Trainer": b.mean(),
                "Trainer's sd": b.std(),
                "Welch p": ttest_ind(a, b, equal_var=False).pvalue,
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
