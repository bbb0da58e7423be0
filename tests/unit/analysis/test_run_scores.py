"""Recorded predictions: their scores, and epochs that other rows chose."""

import json

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import chosen_runs, run_scores
from subtune.analysis.judged_epochs import (
    EPOCH_PARTS,
    choose_part_epochs,
    combine_epochs_by_part,
    make_masked_metric,
)
from subtune.analysis.run_scores import (
    PART_COLUMNS,
    compute_with_evaluate,
    require_scores_of_predictions,
    tabulate_pseudo_values,
)
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.runs.records import write_checksums
from subtune.steps import summary
from subtune.steps.jobs import Job
from subtune.tasks import metrics
from subtune.tasks.task import ScoreColumn, list_score_columns
from tests.helpers import examples

KINDS = ["mrpc", "stsb", "toxic", "ud_ewt", "squad"]
LOGITS = ("logit_0", "logit_1", "logit_2")
EPOCHS, ROWS = 4, 23


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


def recorded(store, task, tables, best=1, seed=0, off=0.0, diverged=False):
    """A record of these predictions, whose scores are too high by ``off``.

    ``best`` is the recorded best epoch.
    """
    spec = examples.run_spec(task=task).replace(seed=seed)
    kind, folder = examples.TASKS[task].of_kind, store / spec.id
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(spec.canonical())
    rows = []
    for epoch, table in tables.items():
        names = examples.TASKS[task].metrics
        found = metrics.compute_metrics(kind.value_type, names, *kind.metric_inputs(table))
        scored = {f"validation/{name}": value + off for name, value in found.items()}
        rows.append({"epoch": epoch, "train_loss": 0.5, "seconds": 1.0} | scored)
    pd.DataFrame(rows).to_csv(folder / "history.csv", index=False)
    outcome = {"best_epoch": best, "scores": {}, "diverged": diverged, "trainable": 3}
    (folder / "scores.json").write_text(json.dumps(outcome))
    pd.DataFrame({"parameter": ["x"], "size": 3}).to_csv(folder / "changes.csv", index=False)
    (folder / records.DELTA).write_bytes(b"0")
    with_split = {e: table.assign(split="validation") for e, table in tables.items()}
    with_split[best].to_parquet(folder / "predictions.parquet", index=False)
    every = pd.concat(with_split, names=["epoch"]).reset_index("epoch")
    every = every.drop(columns=["label", "answers"], errors="ignore")
    every.to_parquet(folder / records.EPOCHS, index=False)
    write_checksums(folder)
    return spec.id


def collected(store, task, runs, apart=True, columns=None):
    about = {"model": "tiny", "task": task, "method": "full", "fraction": None, "scope": None}
    about |= {"train_rows": 12, "learning_rate": 1e-3}
    about |= {"seed": 0, "fold": None, "partition": None, "encoder_size": 100}
    about |= {"planned": 1, "across_models": False}
    planned = [{**about, "run": run, **more} for run, more in runs.items()]
    return run_scores.collect_scores(
        planned, store, columns or list_score_columns([examples.TASKS[task]], {}), apart
    )


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_judged_at_the_epoch_that_other_parts_choose(task, seed):
    spec, tables = examples.TASKS[task].spec(), tables_of(task, seed)
    kind, metric = spec.of_kind, spec.metrics[0]
    epochs = choose_part_epochs(spec, metric, tables)
    found = combine_epochs_by_part(tables, epochs)
    part_of = np.random.default_rng(0).permutation(ROWS) % EPOCH_PARTS
    for row in range(ROWS):
        best, highest = None, None
        for epoch, table in tables.items():
            others = table[[part_of[idx] != part_of[row] for idx in table["idx"]]]
            compared = kind.metric_inputs(others)
            score = metrics.compute_metrics(kind.value_type, [metric], *compared)[metric]
            if highest is None or score > highest:
                best, highest = epoch, score
        assert epochs[part_of[row]] == best
        expected = tables[best][tables[best]["idx"] == row]
        pd.testing.assert_frame_equal(found[found["idx"] == row], expected)
    assert len(found) == len(tables[1])


@pytest.mark.parametrize("task", KINDS)
def test_own_experiments_are_judged_apart_and_papers_at_the_best_epoch(task, tmp_path):
    spec, tables = examples.TASKS[task].spec(), tables_of(task)
    run, metric = recorded(tmp_path, task, tables), spec.metrics[0]
    [paper] = collected(tmp_path, task, {run: {}}, apart=False).to_dict("records")
    curve = [epoch[f"validation/{metric}"] for epoch in records.read_epochs(tmp_path, run)]
    assert (paper["value"], paper["judged_apart"]) == (max(curve), False)
    assert paper["judged_at"] == [curve.index(max(curve)) + 1]

    table = collected(tmp_path, task, {run: {}})
    [own] = table.to_dict("records")
    epochs = choose_part_epochs(spec, metric, tables)
    found = combine_epochs_by_part(tables, epochs)
    score = make_masked_metric(spec, metric, found)()
    assert (own["value"], own["judged_apart"]) == (score, True)
    assert own["judged_at"] == epochs
    assert own["best_epoch"] == paper["best_epoch"]

    columns = list_score_columns([examples.TASKS[task]], {})
    every = run_scores.score_in_all_metrics(chosen_runs.choose_rates(table), tmp_path, columns)
    assert every.set_index("metric")["value"][metric] == score
    assert every["metric"].tolist() == list(spec.metrics)
    [values] = tabulate_pseudo_values(table, tmp_path, columns).to_dict("records")
    whole = len(found["idx"].unique())
    without = found[found["idx"] != np.argmin(np.random.default_rng(0).permutation(whole))]
    without = make_masked_metric(spec, metric, without)()
    assert values[PART_COLUMNS[0]] == pytest.approx(whole * score - (whole - 1) * without)


def test_without_a_row_for_each_part_the_best_epoch_judges(tmp_path):
    few = {epoch: table.head(EPOCH_PARTS - 1) for epoch, table in tables_of("mrpc").items()}
    table = collected(tmp_path, "mrpc", {recorded(tmp_path, "mrpc", few): {}})
    assert not table["judged_apart"].any()
    assert table["judged_at"].tolist() == [[epoch] for epoch in table["best_epoch"]]


def test_where_test_rows_judge_the_best_epoch_on_dev_rows_counts(tmp_path):
    run = recorded(tmp_path, "mrpc", tables_of("mrpc"))
    columns = [
        ScoreColumn("mrpc", "mrpc", "validation", "f1", decides, not decides)
        for decides in (True, False)
    ]
    table = collected(tmp_path, "mrpc", {run: {}}, columns=columns)
    assert not table["judged_apart"].any()
    assert table["judged_at"].tolist() == [[epoch] for epoch in table["best_epoch"]]


def test_rows_are_scored_at_the_epoch_that_a_paper_shows(tmp_path):
    run = recorded(tmp_path, "mrpc", tables_of("mrpc"), best=3)
    columns = list_score_columns([examples.TASKS["mrpc"]], {"mrpc": "accuracy"})
    table = collected(tmp_path, "mrpc", {run: {}}, apart=False, columns=columns)
    assert table["best_epoch"].item() != 3
    found = tabulate_pseudo_values(table, tmp_path, columns)
    assert found[PART_COLUMNS].mean(axis=1).item() == pytest.approx(table["value"].item())


def test_a_fold_is_judged_at_the_epoch_that_other_folds_choose(tmp_path):
    places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 1)]
    runs = {
        recorded(tmp_path, "mrpc", tables_of("mrpc", seed), seed=seed): place
        for seed, place in enumerate(places)
    }
    planned = {run: {"partition": p, "fold": fold} for run, (p, fold) in runs.items()}
    alone = recorded(tmp_path, "mrpc", tables_of("mrpc"), seed=9)
    planned[alone] = {"partition": 0, "fold": 1, "learning_rate": 0.5}
    table = collected(tmp_path, "mrpc", planned).set_index("run")
    curves = {
        run: [epoch["validation/f1"] for epoch in records.read_epochs(tmp_path, run)]
        for run in planned
    }
    for run, (partition, fold) in runs.items():
        others = [curves[r] for r, (p, other) in runs.items() if p == partition and other != fold]
        means = [np.mean(scores_of_epoch) for scores_of_epoch in zip(*others, strict=True)]
        best = means.index(max(means))
        assert table.loc[run, "value"] == curves[run][best]
        assert table.loc[run, "judged_at"] == [best + 1]
    task = examples.TASKS["mrpc"].spec()
    epochs = choose_part_epochs(task, task.metrics[0], tables_of("mrpc"))
    assert table.loc[alone, "judged_at"] == epochs
    assert table["judged_apart"].all() and table["judged_apart"].dtype == bool
    assert not collected(tmp_path, "mrpc", planned, apart=False)["judged_apart"].any()


@pytest.mark.parametrize("compute", [metrics.compute_metrics, compute_with_evaluate])
@pytest.mark.parametrize("task", KINDS)
def test_a_score_must_be_that_of_the_recorded_predictions(task, compute, tmp_path):
    run = recorded(tmp_path / "good", task, tables_of(task))
    require_scores_of_predictions([run, run], tmp_path / "good", compute)
    recorded(tmp_path / "off", task, tables_of(task), off=2e-9)
    words = f"run {run}: {task}: found a recorded .* on validation, .*`subtune verify --res"
    with pytest.raises(SubtuneError, match=words):
        require_scores_of_predictions([run], tmp_path / "off", compute)


def test_no_answer_is_written_from_a_score_that_is_not_that_of_the_predictions(tmp_path):
    run = recorded(tmp_path, "mrpc", tables_of("mrpc"), off=0.1)
    # External predictions have no record.
    pd.DataFrame({"run": [run, "external"], "encoder_size": [1, None]}).to_parquet(
        tmp_path / "chosen.parquet"
    )
    inputs = {"chosen": [str(tmp_path / "chosen.parquet")], "row_scores": []}
    job = Job("summary", "summary", {"tasks": {}}, inputs, {}, {"store": str(tmp_path)})
    with pytest.raises(SubtuneError, match=f"run {run}: mrpc: found a recorded"):
        summary.run(job, {}, 1)


def test_runs_that_diverged_are_left_out(tmp_path):
    diverged = recorded(tmp_path, "mrpc", tables_of("mrpc"), off=0.1, diverged=True)
    require_scores_of_predictions([diverged], tmp_path)


def test_a_diverged_run_has_the_classifier_of_other_seeds(tmp_path):
    """A diverged run records no changes of parameters, so its classifier was not subtracted."""
    runs = {}
    for seed, names in enumerate((["classifier.weight", "x"], [])):
        run = recorded(tmp_path, "mrpc", tables_of("mrpc"), seed=seed, diverged=not names)
        changes = pd.DataFrame({"parameter": names, "size": [2, 1][: len(names)]})
        changes.to_csv(tmp_path / run / "changes.csv", index=False)
        write_checksums(tmp_path / run)
        runs[run] = {"seed": seed}
    found = collected(tmp_path, "mrpc", runs)
    assert found["value"].isna().tolist() == [False, True]
    assert chosen_runs.count_encoder_parameters(found).tolist() == [1, 1]
