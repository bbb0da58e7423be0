"""Replayed comparisons give the answers of the runs from which they are replayed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from benchmarks.decisions import measures, record, recorded, tables
from benchmarks.decisions.__main__ import format_tables
from benchmarks.decisions.measures import judge, list_orders, read_true_scores
from benchmarks.decisions.policies import POLICIES
from benchmarks.decisions.recorded import ENDING, RECORDS, WHOLE, RecordedTable
from benchmarks.decisions.replay import order_seeds, replay

from subtune.analysis.answer import find_answers
from subtune.runs.learning_rates import join_recorded_runs
from subtune.steps import scores
from tests.helpers.examples import sentences

SPLITS = {"train": 24, "validation": 12, "test": 12}


@pytest.fixture(
    scope="module", params=["dev set", pytest.param("folds", marks=pytest.mark.nightly)]
)
def recording(request, tmp_path_factory, tiny_bert) -> tuple[Path, RecordedTable]:
    """The configuration of a small comparison, and the recording of its runs."""
    folder = tmp_path_factory.mktemp("recording")
    rows = iter(sentences(sum(SPLITS.values())))
    for split, number in SPLITS.items():
        lines = [f'"{next(rows)}",{"good" if n % 2 else "bad"}' for n in range(number)]
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *lines, ""]))
    splits = ["train"] if request.param == "folds" else ["train", "validation"]
    experiment = {
        "models": ["tiny"],
        "tasks": ["films"],
        "methods": {
            "full": [1e-3],
            "bitfit": {"search": [1e-3, 1e-2, 1e-1]},
            "embeddings": None,
        },
        "seeds": [0, 1],
        "epochs": 3,
        "batch_size": 8,
        "max_length": 16,
    }
    if request.param == "folds":
        experiment["folds"] = 3
    task = {"files": {split: str(folder / f"{split}.csv") for split in splits}}
    task |= {"text": ["text"], "labels": ["bad", "good"], "metrics": ["accuracy"]}
    config = {
        "results": str(folder / "results"),
        "models": {"tiny": {"path": str(tiny_bert)}},
        "tasks": {"films": task},
        "experiments": {"mine": experiment},
    }
    configuration = folder / f"{WHOLE}.yaml"
    configuration.write_text(yaml.safe_dump(config))
    context = record.open_context(configuration)
    record.prepare_inputs(context)
    planned, results = context.plan.experiments["mine"], folder / "runs"
    while True:
        known = recorded.read_results(results)
        found = {run: values.about["score"] for run, values in known.items()}
        missing = record.list_needed_runs(planned, found, searches=True)
        if not missing:
            break
        for run in missing:
            target = results / f"{run.spec.id}.npz"
            record.train_run(configuration, run.json_types, folder / "test.csv", target)
    settings, texts = {"now": {4: WHOLE}}, {WHOLE: configuration.read_text()}
    size = record.read_encoder_size(folder)
    return configuration, RecordedTable("films", known, {WHOLE: planned}, settings, size, texts)


def test_recorded_runs_give_the_answer_of_their_records(recording):
    configuration, table = recording
    context = record.open_context(configuration)
    store, planned = Path(context.layout.records()), table.plans[WHOLE]
    for run in table.runs:
        # Of the deltas, which are not kept, only the size is read.
        (store / run / "delta.safetensors").touch()
    [job] = scores.jobs(context)
    known = {run: values.about["score"] for run, values in table.runs.items()}
    # After one seed or fold of each method, after all of them, and with a searched rate.
    by_time = [run.spec.with_learning_rate(1e-2) if run.search else run.spec for run in planned]
    few = {run.id: known[run.id] for run in by_time if run.seed == 0}
    for some in (few, {run.id: known[run.id] for run in by_time}, known):
        joined = join_recorded_runs(planned, lambda run, some=some: some.get(run.id))
        _, _, chosen, row_scores = scores.collect_run_scores(job, joined)
        [slow] = find_answers(chosen, row_scores)
        fast = table.find_answer(joined, {run.method for run in planned})
        assert fast.decision == slow.decision
        for title, candidate in slow.compared.methods.items():
            same = fast.compared.methods[title]
            assert same.chance == pytest.approx(candidate.chance, nan_ok=True)
            assert same.difference == pytest.approx(candidate.difference, nan_ok=True)
            assert (same.sort_key, same.seeds) == (candidate.sort_key, candidate.seeds)


def test_runs_are_scored_on_the_test_set(recording):
    _, table = recording
    found = read_true_scores(table)
    assert {*found} == {"full", "bitfit", "embeddings"}
    assert all(0 <= score <= 1 for score in found.values())


def test_a_packed_table_is_read_as_it_was(recording, tmp_path, monkeypatch):
    _, table = recording
    monkeypatch.setattr(recorded, "RECORDS", tmp_path)
    again = recorded.read_table(recorded.pack_table(table))
    assert (again.name, again.settings, again.plans) == ("films", table.settings, table.plans)
    assert again.configurations == table.configurations
    for run, values in table.runs.items():
        assert again.runs[run].about == values.about
        assert all(map(np.array_equal, again.runs[run][1:], values[1:]))
    record.unpack_table(again, tmp_path / "films")
    assert {*recorded.read_results(tmp_path / "films" / "runs")} == {*table.runs}
    text = (tmp_path / "films" / f"{WHOLE}.yaml").read_text()
    assert text == table.configurations[WHOLE].replace(recorded.FOLDER, str(tmp_path / "films"))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_longer_replay_begins_like_a_shorter_one(recording, policy):
    _, table = recording
    planned = order_seeds(table.plans[WHOLE], [0, 1])
    long, short = (replay(table, planned, POLICIES[policy], minutes) for minutes in (20, 0.5))
    seconds = [moment.seconds for moment in long.moments]
    assert seconds == sorted(seconds)
    assert [moment.seconds for moment in short.moments] == seconds[: len(short.moments)]
    assert long.known == np.inf


def test_a_replay_ends_before_a_run_that_is_not_recorded(recording):
    _, table = recording
    [*_, lost] = [run.spec.id for run in table.plans[WHOLE] if run.method == "full"]
    some = {run: values for run, values in table.runs.items() if run != lost}
    whole = replay(table, table.plans[WHOLE], POLICIES["now"], minutes=20)
    part = replay(replace(table, runs=some), table.plans[WHOLE], POLICIES["now"], minutes=20)
    assert part.known < np.inf
    assert 0 < len(part.moments) < len(whole.moments)


RECORDED = sorted(path.name.removesuffix(ENDING) for path in RECORDS.glob(f"*{ENDING}"))


def test_recorded_tables_are_in_the_list_of_tables():
    assert RECORDED and {*RECORDED} <= {*tables.TABLES}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "packages-5" else pytest.param(name, marks=pytest.mark.nightly)
        for name in RECORDED
    ],
)
def test_a_recorded_table_can_be_replayed(name):
    table = recorded.read_table(RECORDS / f"{name}{ENDING}")
    truth = read_true_scores(table)
    planned = order_seeds(table.plans[WHOLE], list_orders(1)[0])
    replayed = replay(table, planned, POLICIES["now"], minutes=10)
    # Full fine-tuning is recorded with two seeds or folds, so it is compared.
    assert replayed.known >= 600
    answer = replayed.moments[-1].answer
    assert len(answer.compared.methods["Full"].seeds) >= 2
    assert judge(replayed.moments, truth)["answered"] == (answer.decision != "undecided")


def test_rows_of_a_group_are_in_one_split(tmp_path):
    frame = pd.DataFrame({"text": map(str, range(90)), "label": "x", "author": [*"abcdefghi"] * 10})
    table = tables.Table(40, 20, lambda source: frame, {"group": "author"})
    paths = tables.write_table(table, tables.Source(tmp_path, tmp_path), tmp_path)
    splits = [set(pd.read_csv(path)["author"]) for path in paths.values()]
    assert sum(map(len, splits)) == len(set.union(*splits))


def test_an_answer_is_true_if_the_named_method_is_within_the_margin_on_the_test_set():
    truth = {"full": 0.9, "bitfit": 0.89, "frozen": 0.8}
    verdict = measures.Verdict
    assert measures.is_true(verdict("bitfit", "train"), truth)
    assert not measures.is_true(verdict("frozen", "probably"), truth)
    assert not measures.is_true(verdict("full", "everything"), truth)
    assert measures.is_true(verdict("full", "probably everything"), truth | {"bitfit": 0.8})


def answer(decision: str, method: str, **chances: float) -> SimpleNamespace:
    """An answer about full fine-tuning and methods with these probabilities."""
    names = ["full", *chances]
    methods = {name: SimpleNamespace(chance=chance) for name, chance in chances.items()}
    return SimpleNamespace(
        decision=decision,
        candidate=SimpleNamespace(title=method),
        runs=pd.DataFrame({"title": names, "method": names}),
        compared=SimpleNamespace(reference="full", methods=methods),
    )


@pytest.mark.parametrize(
    ("other", "contradicts"),
    [
        (answer("undecided", "frozen", frozen=0.6, bitfit=0.6), False),
        (answer("train", "bitfit", frozen=0.1, bitfit=0.97), False),
        (answer("probably", "frozen", frozen=0.9, bitfit=0.9), False),
        (answer("probably", "frozen", frozen=0.9, bitfit=0.4), True),
        (answer("everything", "bitfit", frozen=0.01, bitfit=0.02), True),
    ],
)
def test_answers_contradict_each_other_if_one_denies_what_the_other_says(other, contradicts):
    first = answer("probably", "bitfit", frozen=0.6, bitfit=0.9)
    assert measures.contradict(first, other) == contradicts
    assert measures.contradict(other, first) == contradicts


def calls_of(policy: str, true: Mapping[str, bool | None], order: str = "[0]") -> pd.DataFrame:
    """The rows of four-minute calls on tables whose answers are true, false or missing."""
    values = dict.fromkeys(measures.MEANS, False) | dict.fromkeys(["seconds_to_final"], 60.0)
    values |= {"full_true": None, "seconds": dict.fromkeys(measures.KINDS, 30.0)}
    values |= {"changes": dict.fromkeys(measures.KINDS, 1), "policy": policy, "minutes": 4}
    return pd.DataFrame(
        values | {"table": table, "order": order, "true": value, "answered": value is not None}
        for table, value in true.items()
    )


ANSWERS = {"a": True, "b": False, "c": None, "d": True, "e": True}


def test_shares_of_calls_have_intervals_over_tables():
    found = measures.summarise(calls_of("now", ANSWERS))["now"]["4"]
    assert (found["tables"], found["calls"], found["answered"]) == (5, 5, 0.8)
    assert found["answered_interval"] == [0.4, 1.0]
    # Of four answers, three are true.
    assert found["true"] == 0.75
    assert (found["seconds_to_final"], found["full_true"]) == (60, None)
    assert (found["seconds"]["rates"], found["changes"]["rates"]) == (30, 1)


def test_few_tables_have_no_interval():
    found = measures.summarise(calls_of("now", {"a": True, "b": False}))
    assert (found["now"]["4"]["true"], found["now"]["4"]["true_interval"]) == (0.5, None)


def test_the_tables_show_shares_in_percent_and_intervals_if_there_are_any():
    shares, kinds = format_tables(measures.summarise(calls_of("now", ANSWERS))).split("\n\n")
    assert "| 80 (40 to 100) " in shares and "| 75 " in shares and "| 30 s, 1.00 " in kinds
    few = format_tables(measures.summarise(calls_of("now", {"a": True, "b": False})))
    assert "| 50 " in few and "(" not in few


def test_a_call_counts_only_if_it_is_known_for_all_policies():
    calls = [calls_of("now", ANSWERS), calls_of("before", ANSWERS), calls_of("now", ANSWERS, "[1]")]
    found = measures.summarise(pd.concat(calls))
    assert [found[policy]["4"]["calls"] for policy in ("now", "before")] == [5, 5]
