"""Cross-validation of cheap learners on real rows: how often intervals hold the true difference.

    python -m benchmarks.folds --glue-dir /path/to/glue --studies 300 --to results/benchmarks

Learners are ridge regressions on frozen embeddings: one reads all of their numbers, the other 64 at
random. Each run leaves a fifth of its training rows out, at random, so that runs differ as those of
fine-tuning do. The truth is their mean difference on rows that no study has. It writes
``folds.md``, and embeddings beside it, which a second call reads.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.inputs import MAX_LENGTH, MINILM
from benchmarks.studies import markdown, percent, scored
from subtune.analysis import intervals
from subtune.analysis.intervals import LEVEL
from subtune.data.load import load, tokenize
from subtune.models.files import directory_of_package
from subtune.models.loading import load_model
from subtune.specs.inputs import DataSpec
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training.embeddings import features

NAMES = ("sst2", "cola", "mrpc", "rte")
METRICS = ("accuracy", "F1", "Matthews")
ROWS, FOLDS, PARTITIONS = (400, 800), 5, 2
# The first rows of a task that are used, and those that tell the truth in a study.
MOST_ROWS, ROWS_OF_TRUTH = 12_000, 1_000
NUMBERS, LEFT_OUT, PENALTY = 64, 0.2, 1.0
FIVE_RUNS = "nested"
RUNS = (3, 7, 10)


class Rows(NamedTuple):
    """Features ``[n, f]`` and whether each row is of class 1 ``[n]``."""

    features: np.ndarray
    is_one: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--glue-dir", type=Path, required=True, help="GLUE in the official layout")
    parser.add_argument("--studies", type=int, default=300, help="of each setting; default: 300")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    tables = []
    for name in NAMES:
        rows = embedded(name, options.glue_dir, options.to / f"embeddings_{name}.npz")
        for count in ROWS:
            generator = np.random.default_rng([NAMES.index(name), count])
            studies = [validated(rows, count, generator) for _ in range(options.studies)]
            tables += [
                judged(studies, place, count).assign(task=TASKS[name].title, rows=count)
                for place in range(len(METRICS))
            ]
            print(name, count, flush=True)
    (options.to / "folds.md").write_text(in_markdown(pd.concat(tables), options.studies))


def embedded(name: str, glue_dir: Path, saved: Path) -> Rows:
    """Return MiniLM's embeddings of a task's rows, from a file if it is there."""
    if not saved.exists():
        task, directory = TASKS[name], directory_of_package(MINILM)
        data = load(DataSpec(task=task, source="tsv", version="benchmark"), str(glue_dir))
        every = datasets.concatenate_datasets([data["train"], data["validation"]])
        chosen = datasets.DatasetDict(train=every.select(range(min(MOST_ROWS, len(every)))))
        texts = len(task.text)
        tokens = tokenize(task, chosen, directory, MAX_LENGTH, apart=texts > 1)
        examples = Examples(tokens["train"], "all")
        model = load_model(directory, task.of_kind.head, task.outputs)
        read = features(model, examples, np.arange(len(examples)))
        np.savez(saved, features=read, is_one=examples.labels[::texts] == 1)
    return Rows(**np.load(saved))


def validated(
    rows: Rows, count: int, generator: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Cross-validate both learners on so many rows, of which several partitions are made.

    Returns:
        By metric: differences ``[runs]``, their pseudo-values ``[runs, parts]``, and differences
        on other rows ``[runs]``.
    """
    order = generator.permutation(len(rows.is_one))
    own, others = order[:count], order[count:][:ROWS_OF_TRUTH]
    found = []
    for _ in range(PARTITIONS):
        # Stratified: rows of a class go to all folds in turn.
        mixed = generator.permutation(own)
        mixed = mixed[np.argsort(rows.is_one[mixed], kind="stable")]
        for fold in range(FOLDS):
            is_held = np.arange(count) % FOLDS == fold
            held, train = generator.permutation(mixed[is_held]), mixed[~is_held]
            weights = [fitted(rows, train, chosen, generator) for chosen in (None, NUMBERS)]
            found.append([differences(rows, at, weights) for at in (held, others)])
    return [
        (
            np.array([held[place][0] for held, _ in found]),
            np.array([held[place][1] for held, _ in found]),
            np.array([others[place][0] for _, others in found]),
        )
        for place in range(len(METRICS))
    ]


def fitted(
    rows: Rows, train: np.ndarray, numbers: int | None, generator: np.random.Generator
) -> np.ndarray:
    """Return a ridge regression's weights and, last, its bias, of so many numbers at random."""
    used = generator.choice(train, int(len(train) * (1 - LEFT_OUT)), replace=False)
    width = rows.features.shape[1]
    chosen = np.arange(width) if numbers is None else generator.choice(width, numbers, False)
    x, y = rows.features[used][:, chosen].astype(float), np.where(rows.is_one[used], 1.0, -1.0)
    centred = x - x.mean(0)
    kernel = centred @ centred.T + PENALTY * np.eye(len(x))
    weights = np.zeros(width + 1)
    weights[chosen] = centred.T @ np.linalg.solve(kernel, y - y.mean())
    weights[-1] = y.mean() - x.mean(0) @ weights[chosen]
    return weights


def differences(
    rows: Rows, at: np.ndarray, weights: list[np.ndarray]
) -> list[tuple[float, np.ndarray]]:
    """Return the second learner's score minus the first's, and its pseudo-values, by metric."""
    is_one, of_rows = rows.is_one[at], rows.features[at]
    outputs = np.array([of_rows @ of_one[:-1] + of_one[-1] for of_one in weights])
    # Above 0 where the learner is right.
    outputs = np.where(is_one, outputs, -outputs)
    found = (scored(metric, outputs, is_one) for metric in METRICS)
    return [(float(scores[1] - scores[0]), values[1] - values[0]) for scores, values in found]


def judged(studies: list, place: int, count: int) -> pd.DataFrame:
    """Return for every way to compute it how often the interval holds the truth, and its width."""
    of_metric = [study[place] for study in studies]
    truth = np.mean([others.mean() for _, _, others in of_metric])
    rows = []
    for differences, values, _ in of_metric:
        first, of_first = differences[:FOLDS].tolist(), values[:FOLDS]
        nested = intervals.nested_study(first, of_first, count, FOLDS)
        several = {
            FIVE_RUNS: nested,
            "folds as seeds": intervals.study(first, of_first, count),
            "Student over folds": intervals.study(first, None, 0),
            "rows alone": nested._replace(seed_variance=0.0),
        } | {
            f"{FIVE_RUNS}, {runs} runs": intervals.nested_study(
                differences[:runs].tolist(), values[:runs], count, FOLDS
            )
            for runs in RUNS
        }
        found = {name: (s.mean, *s.error()) for name, s in several.items()}
        # The variance is multiplied for the training rows that folds share: Nadeau and Bengio
        # (2003).
        mean, variance, degrees = found["Student over folds"]
        found["Nadeau and Bengio"] = mean, variance * (1 + FOLDS / (FOLDS - 1)), degrees
        for name, (mean, variance, degrees) in found.items():
            half, one_sided = stats.t.ppf([(1 + LEVEL) / 2, LEVEL], degrees) * variance**0.5
            rows.append([name, abs(mean - truth) <= half, half, mean - one_sided > truth])
    table = pd.DataFrame(rows, columns=["interval", "coverage", "half-width", "falsely sure"])
    return table.assign(metric=METRICS[place])


def in_markdown(table: pd.DataFrame, studies: int) -> str:
    """Return coverage and width of every way, and coverage by metric, task and rows."""
    of_all = table.groupby("interval", sort=False)[
        ["coverage", "falsely sure", "half-width"]
    ].mean()
    shares = of_all[["coverage", "falsely sure"]].map(percent)
    parts = [
        f"{studies} studies of each task and number of rows, by each of three metrics.",
        markdown(shares.assign(**{"half-width": of_all["half-width"].map("{:.3f}".format)})),
    ]
    for by in ("metric", "task", "rows"):
        coverage = table.pivot_table("coverage", "interval", by, sort=False)
        parts.append(markdown(coverage.map(percent)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
