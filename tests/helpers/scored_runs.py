"""Write records of made-up predictions or learning curves, and collect their scores."""

import json

import numpy as np
import pandas as pd

from subtune.analysis import run_scores
from subtune.runs import records
from subtune.tasks.task import list_score_columns
from tests.helpers import examples

KINDS = ["mrpc", "stsb", "toxic", "ud_ewt", "squad"]
LOGITS = ("logit_0", "logit_1", "logit_2")
EPOCHS, ROWS = 4, 23
# The trained tensors of each run; the last two are those of a classifier.
SIZES = {"output.LayerNorm.bias": 4, "classifier.dense.bias": 4, "classifier.out_proj.bias": 2}


def predicted(task, generator):
    """A table of predictions, some of them right: the recorded columns, and labels."""
    match examples.TASKS[task].kind:
        case "classification":
            label = generator.integers(0, 2, ROWS)
            right = generator.random(ROWS) < 0.7
            logit = np.where(label == right, 1.0, -1.0)
            return {"idx": np.arange(ROWS), "label": label, "logit_0": -logit, "logit_1": logit}
        case "multilabel":
            label = generator.integers(0, 2, (ROWS, 3))
            right = generator.random(label.shape) < 0.7
            logits = dict(zip(LOGITS, np.where(label == right, 1.0, -1.0).T, strict=True))
            return {"idx": np.arange(ROWS), "label": [*label], **logits}
        case "regression":
            label = generator.normal(size=ROWS)
            logit = label + generator.normal(size=ROWS)
            return {"idx": np.arange(ROWS), "label": label, "logit_0": logit}
        case "tokens":
            text = np.repeat(np.arange(ROWS), 3)
            label, found = generator.integers(0, 3, (2, len(text)))
            word = np.arange(len(text)) % 3
            return {"idx": text, "word": word, "label": label, "prediction": found}
    answers = [["a cat", "cats"], ["dogs"]] * ROWS
    texts = generator.choice(["cat", "dogs run", "dogs"], ROWS)
    table = {"idx": np.arange(ROWS), "label": "", "prediction": texts, "start": 0, "end": 1}
    return table | {"answers": answers[:ROWS]}


def tables_of(task, seed=0):
    """Predictions by epoch, with the same labels."""
    generator = np.random.default_rng(seed)
    tables = {epoch: pd.DataFrame(predicted(task, generator)) for epoch in range(1, EPOCHS + 1)}
    return {epoch: table.assign(label=tables[1]["label"]) for epoch, table in tables.items()}


def write_run(store, task, tables=None, curve=None, best=1, seed=0, off=0.0, diverged=False):
    """Write the record of a run of `examples.run_spec`; return its id.

    Args:
        tables: the predictions of each epoch; default: the same predictions in each.
        curve: a tuple of scores per epoch; default: the scores of the predictions.
        best: the recorded best epoch.
        off: is added to each score.
    """
    spec, of_task = examples.run_spec(task=task).replace(seed=seed), examples.TASKS[task]
    folder, kind = store / spec.id, of_task.of_kind
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(spec.canonical())
    if tables is None:
        tables = dict.fromkeys(range(1, len(curve) + 1), tables_of(task)[1])
    if curve is None:
        scores = [kind.score(of_task.spec(), table) for table in tables.values()]
        curve = [tuple(found[name] + off for name in of_task.metrics) for found in scores]
    history = pd.DataFrame(curve, columns=[f"validation/{name}" for name in of_task.metrics])
    history = history.assign(epoch=[*tables], train_loss=0.5, seconds=1.0)
    history.to_csv(folder / "history.csv", index=False)
    outcome = {"best_epoch": best, "scores": {}, "diverged": diverged, "trainable": 10}
    (folder / "scores.json").write_text(json.dumps(outcome))
    sizes = {} if diverged else SIZES
    changes = pd.DataFrame({"parameter": [*sizes], "mean_abs_change": 0.1, "size": sizes.values()})
    changes.to_csv(folder / "changes.csv", index=False)
    (folder / records.DELTA).write_bytes(b"0" * 80)
    with_split = {e: table.assign(split="validation") for e, table in tables.items()}
    with_split[best].to_parquet(folder / "predictions.parquet", index=False)
    every = pd.concat(with_split, names=["epoch"]).reset_index("epoch")
    every = every.drop(columns=["label", "answers"], errors="ignore")
    every.to_parquet(folder / records.EPOCHS, index=False)
    records.write_checksums(folder)
    return spec.id


def collected(store, task, runs, apart=True, columns=None, **found):
    """Collect the scores of runs. ``runs`` maps ids to columns that differ between runs."""
    about = {"model": "tiny", "task": task, "method": "full", "fraction": None, "scope": None}
    about |= {"train_rows": 100, "learning_rate": 1e-3, "seed": 0, "fold": None, "partition": None}
    about |= {"encoder_size": 100, "planned": 1, "across_models": False} | found
    finished = [{**about, "run": run, **more} for run, more in runs.items()]
    columns = columns or list_score_columns([examples.TASKS[task]], {})
    return run_scores.collect_scores(finished, store, columns, apart)
