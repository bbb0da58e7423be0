"""Recorded predictions: their scores, and epochs that other rows chose."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, f1_score

from subtune.analysis import chosen_runs, judged_epochs
from subtune.analysis.answer import find_answers
from subtune.analysis.candidates import summarise_methods
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
    score_external_predictions,
    score_in_all_metrics,
    tabulate_pseudo_values,
)
from subtune.analysis.tables import set_types
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.steps import summary
from subtune.steps.jobs import Job
from subtune.tasks import metrics
from subtune.tasks.task import ScoreColumn, list_score_columns
from tests.helpers import examples
from tests.helpers.scored_runs import KINDS, ROWS, collected, tables_of, write_run


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
    run, metric = write_run(tmp_path, task, tables), spec.metrics[0]
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
    every = score_in_all_metrics(chosen_runs.choose_rates(table), tmp_path, columns)
    assert every.set_index("metric")["value"][metric] == score
    assert every["metric"].tolist() == list(spec.metrics)
    [values] = tabulate_pseudo_values(table, tmp_path).to_dict("records")
    whole = len(found["idx"].unique())
    without = found[found["idx"] != np.argmin(np.random.default_rng(0).permutation(whole))]
    without = make_masked_metric(spec, metric, without)()
    assert values[PART_COLUMNS[0]] == pytest.approx(whole * score - (whole - 1) * without)


def test_without_a_row_for_each_part_the_best_epoch_judges(tmp_path):
    few = {epoch: table.head(EPOCH_PARTS - 1) for epoch, table in tables_of("mrpc").items()}
    table = collected(tmp_path, "mrpc", {write_run(tmp_path, "mrpc", few): {}})
    assert not table["judged_apart"].any()
    assert table["judged_at"].tolist() == [[epoch] for epoch in table["best_epoch"]]


def test_where_a_scorer_is_undefined_without_a_part_the_best_epoch_judges(tmp_path):
    spec, tables = examples.TASKS["mrpc"].spec(), tables_of("mrpc")
    part = judged_epochs.part_indices(tables[1], EPOCH_PARTS)
    # All positive examples are in one part.
    tables = {epoch: table.assign(label=(part == 0).astype(int)) for epoch, table in tables.items()}
    assert choose_part_epochs(spec.replace(metrics=("roc_auc",)), "roc_auc", tables) == []
    assert len(choose_part_epochs(spec, spec.metrics[0], tables)) == EPOCH_PARTS


def test_where_test_rows_judge_the_best_epoch_on_dev_rows_counts(tmp_path):
    run = write_run(tmp_path, "mrpc", tables_of("mrpc"))
    columns = [
        ScoreColumn("mrpc", "mrpc", "validation", "f1", decides, not decides)
        for decides in (True, False)
    ]
    table = collected(tmp_path, "mrpc", {run: {}}, columns=columns)
    assert not table["judged_apart"].any()
    assert table["judged_at"].tolist() == [[epoch] for epoch in table["best_epoch"]]


def test_rows_are_scored_at_the_epoch_that_a_paper_shows(tmp_path):
    run = write_run(tmp_path, "mrpc", tables_of("mrpc"), best=3)
    columns = list_score_columns([examples.TASKS["mrpc"]], {"mrpc": "accuracy"})
    table = collected(tmp_path, "mrpc", {run: {}}, apart=False, columns=columns)
    assert table["best_epoch"].item() != 3
    found = tabulate_pseudo_values(table, tmp_path)
    assert found[PART_COLUMNS].mean(axis=1).item() == pytest.approx(table["value"].item())


def test_a_fold_is_judged_at_the_epoch_that_other_folds_choose(tmp_path):
    places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 1)]
    runs = {
        write_run(tmp_path, "mrpc", tables_of("mrpc", seed), seed=seed): place
        for seed, place in enumerate(places)
    }
    planned = {run: {"partition": p, "fold": fold} for run, (p, fold) in runs.items()}
    alone = write_run(tmp_path, "mrpc", tables_of("mrpc"), seed=9)
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
    run = write_run(tmp_path / "good", task, tables_of(task))
    require_scores_of_predictions([run, run], tmp_path / "good", compute)
    write_run(tmp_path / "off", task, tables_of(task), off=2e-9)
    words = f"run {run}: {task}: found a recorded .* on validation, .*`subtune verify --res"
    with pytest.raises(SubtuneError, match=words):
        require_scores_of_predictions([run], tmp_path / "off", compute)


def test_no_answer_is_written_from_a_score_that_is_not_that_of_the_predictions(tmp_path):
    run = write_run(tmp_path, "mrpc", tables_of("mrpc"), off=0.1)
    # External predictions have no record.
    pd.DataFrame({"run": [run, "external"], "encoder_size": [1, None]}).to_parquet(
        tmp_path / "chosen.parquet"
    )
    inputs = {"chosen": [str(tmp_path / "chosen.parquet")], "row_scores": []}
    job = Job("summary", "summary", {"tasks": {}}, inputs, {}, {"store": str(tmp_path)})
    with pytest.raises(SubtuneError, match=f"run {run}: mrpc: found a recorded"):
        summary.run(job, {}, 1)


def test_runs_that_diverged_are_left_out(tmp_path):
    diverged = write_run(tmp_path, "mrpc", tables_of("mrpc"), off=0.1, diverged=True)
    require_scores_of_predictions([diverged], tmp_path)


def test_a_diverged_run_has_the_classifier_of_other_seeds(tmp_path):
    """A diverged run records no changes of parameters, so its classifier was not subtracted."""
    runs = {
        write_run(tmp_path, "mrpc", tables_of("mrpc"), seed=seed, diverged=seed > 0): {"seed": seed}
        for seed in range(2)
    }
    found = collected(tmp_path, "mrpc", runs)
    assert found["value"].isna().tolist() == [False, True]
    assert chosen_runs.count_encoder_parameters(found).tolist() == [4, 4]


def compare_external(store, task, external, seeds=1):
    """Return ``chosen`` and the row scores of full's runs, and of external predictions."""
    runs = {
        write_run(store, task, tables_of(task), seed=seed): {"seed": seed} for seed in range(seeds)
    }
    best = chosen_runs.choose_rates(collected(store, task, runs))
    chosen = set_types(best.assign(margin=0.02, curve="converged", encoder_size=100), "scores")
    rows = tabulate_pseudo_values(chosen, store)
    if callable(external):
        row = chosen.iloc[0].to_dict()
        external = external(judged_epochs.read_scored_predictions(store, row)[1])
    added, added_rows = score_external_predictions(chosen, store, {task: external})
    return pd.concat([chosen, added], ignore_index=True), pd.concat([rows, added_rows])


@pytest.mark.parametrize("task", ["mrpc", "stsb", "toxic"])
def test_full_fine_tunings_own_predictions_lose_nothing_against_it(task, tmp_path):
    def own(table):
        return {"own": table.sort_values("idx").filter(like="logit_").to_numpy()}

    chosen, rows = compare_external(tmp_path, task, own)
    full, system = chosen.to_dict("records")
    assert system["value"] == full["value"]
    assert rows["rows_hash"].nunique() == 1
    assert np.array_equal(*rows[PART_COLUMNS].to_numpy(float), equal_nan=True)
    found = summarise_methods(chosen, rows).set_index("method").loc["own"]
    assert (found["score"], found["difference"]) == (round(full["value"], 10), 0)
    assert pd.isna(found["encoder_size"]) and not found["on_front"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_system_is_scored_as_scikit_learn_and_scipy_score_it(seeds, tmp_path):
    rng = np.random.default_rng(1)
    guesses = rng.random((ROWS, 3)) - 0.5
    labels = {task: tables_of(task)[1]["label"] for task in ("mrpc", "stsb", "toxic")}
    expected = {
        "mrpc": f1_score(labels["mrpc"], guesses[:, :2].argmax(1)),
        "stsb": spearmanr(labels["stsb"], guesses[:, 0])[0],
        "toxic": f1_score(np.stack(labels["toxic"]), guesses > 0, average="micro"),
    }
    for task, score in expected.items():
        outputs = examples.TASKS[task].outputs
        external = {"guesses": guesses[:, :outputs]}
        chosen, rows = compare_external(tmp_path / task, task, external, seeds)
        systems = chosen[chosen["method"] == "guesses"]
        assert len(systems) == seeds
        assert systems["value"].to_numpy() == pytest.approx(score)
        assert set(systems["run"]) <= set(rows["run"])


def test_a_system_is_compared_but_never_what_to_train(tmp_path):
    truth = np.eye(2)[tables_of("mrpc")[1]["label"]]
    chosen, rows = compare_external(tmp_path, "mrpc", {"truth": truth}, seeds=3)
    assert accuracy_score(tables_of("mrpc")[1]["label"], truth.argmax(1)) == 1
    [answer] = find_answers(chosen, rows)
    assert (answer.compared.reference, answer.candidate) == ("Full", None)
    assert summarise_methods(chosen, rows).set_index("method").loc["truth", "sure"]
