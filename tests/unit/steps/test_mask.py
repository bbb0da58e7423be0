"""A user's ranking, from the file of the user to the recorded runs."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification

from subtune.comparison.loop import Loop, TimeLimit
from subtune.comparison.recorded_results import write_answers
from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.data.load import read_splits
from subtune.methods.single_entries import ChosenEntries, read_entry_hashes
from subtune.models.encoder import draw_classifier, load_spec_encoder
from subtune.runs import records
from subtune.share.predict import predict_table
from subtune.steps.context import plan_and_check
from subtune.steps.jobs import STEPS, Job, run_job
from subtune.steps.plan_file import plan_jobs

GEM = "def mine(weight, gradient):\n    return abs(gradient) / (abs(weight) + 1e-8)\n"
MATRICES = "encoder.layer.**.dense.weight"


@pytest.fixture
def planned(settings, tiny_bert):
    """Write a rule, and return a function that runs a configuration's jobs until a last step."""

    def run_all(code=GEM, by="my_rules.py:mine", task=(), last="scores", **experiment):
        settings["tasks"]["mine"] |= task
        Path("my_rules.py").write_text(code)
        settings["models"]["minilm"] = {"path": str(tiny_bert)}
        settings["selections"] = {"gem": {"top": {"count": 9, "by": by, "of": [MATRICES]}}}
        changed = {"methods": {"gem": [1e-3], "layernorm": [1e-3]}, "max_length": 32} | experiment
        settings["experiments"]["first"] |= changed
        context = plan_and_check(check_config(settings))
        jobs = plan_jobs(context).jobs
        for step in STEPS[: STEPS.index(last) + 1]:
            for job in jobs[step].values():
                run_job(job)
        return context

    return run_all


def find_masks(context):
    """Return the specs of masks by id, without the random controls."""
    return {id: mask for id, mask in context.plan.masks.items() if mask.top.by != "random"}


def read_mask(context):
    [mask] = find_masks(context)
    return load_file(context.layout.mask(mask))


def list_records(context):
    store = Path(context.layout.records())
    return {path.name: path.stat().st_mtime_ns for path in store.iterdir()}


@pytest.mark.slow
def test_the_entries_are_those_of_a_few_lines_of_plain_torch(planned, tiny_bert, tmp_path):
    context = planned()
    [mask] = find_masks(context).values()
    [sample] = mask.samples
    theirs = AutoModelForSequenceClassification.from_pretrained(tiny_bert, num_labels=2).eval()
    own = load_spec_encoder(sample, context.layout.model(sample.model.id))
    start = {own.exported_name(n): v for n, v in draw_classifier(own, 0).items()}
    theirs.load_state_dict(theirs.state_dict() | start)
    rows = read_splits(Path(context.layout.tokens(sample.tokens.key)))["train"]
    for row in rows:
        theirs(
            input_ids=torch.tensor([row["input_ids"]]), labels=torch.tensor([row["label"]])
        ).loss.backward()
    scores = {
        name: np.abs(value.grad.numpy() / len(rows)) / (np.abs(value.detach().numpy()) + 1e-8)
        for name, value in theirs.bert.named_parameters()
        if name.startswith("encoder.layer") and name.endswith("dense.weight")
    }
    lowest = np.sort(np.concatenate([score.ravel() for score in scores.values()]))[-9]
    expected = {n: np.flatnonzero(s >= lowest) for n, s in scores.items() if (s >= lowest).any()}
    found = read_mask(context)
    assert found.keys() == expected.keys()
    for name, flat in expected.items():
        np.testing.assert_array_equal(found[name], flat)
    store = Path(context.layout.records())
    specs = [records.read_spec(store, run) for run in records.list_run_ids(store)]
    masked = [spec for spec in specs if isinstance(spec.selection, ChosenEntries)]
    classifier = sum(value.numel() for name, value in start.items())
    # The random control trains as many entries.
    trainable = [records.read_outcome(store, spec.id)["trainable"] for spec in masked]
    assert trainable == [9 + classifier] * 2
    # Results stay readable without the code.
    Path("my_rules.py").unlink()
    for run in list_records(context):
        predict_table(context.layout, run, tmp_path / "validation.csv", tmp_path / f"{run}.csv")
    [mask] = find_masks(context)
    assert Path(context.layout.code_of_mask(mask)).read_text() == GEM


@pytest.mark.nightly
def test_a_comment_another_order_and_a_moved_file_train_nothing(planned, monkeypatch):
    before = list_records(planned())
    for code in (f"{GEM}# A comment.\n", f"def first(weight):\n    return weight\n\n\n{GEM}"):
        assert list_records(planned(code)) == before
    Path("other.py").write_text(GEM)
    assert list_records(planned(by="other.py:mine")) == before
    # The built-in rule chooses the same entries.
    assert list_records(planned(by="gem")) == before
    assert len(list_records(planned(GEM.replace("1e-8", "100")))) == len(before) + 1


@pytest.mark.slow
def test_a_file_that_changes_after_the_plan_is_not_used(planned):
    context = planned(last="gradient")
    Path("my_rules.py").write_text(GEM.replace("1e-8", "1"))
    [mask] = find_masks(context)
    job = plan_jobs(context).jobs["mask"][mask]
    with pytest.raises(SubtuneError, match=r"my_rules.py has changed since the plan; run the com"):
        run_job(job)


@pytest.mark.slow
def test_compare_trains_runs_with_masks_and_answers_while_masks_are_missing(planned, tiny_bert):
    """The workers of `compare` run in another directory."""
    files = {split: str(Path(f"{split}.csv").resolve()) for split in ("train", "validation")}
    methods = {"layernorm": [1e-3], "gem": [1e-3]}
    context = planned(task={"files": files}, methods=methods, last="dataset")
    shutil.rmtree(context.layout.results)
    state, folder = Loop(context, TimeLimit.start_now(1)), Path("elsewhere")
    folder.mkdir()
    done, answered = set(), []
    while jobs := [*state.next_jobs()]:
        if state.progress.join_recorded_runs():
            write_answers(context)
            answered.append({*state.masks})
        assert jobs[0].id not in done
        done.add(jobs[0].id)
        given = Path(context.layout.results).resolve()
        moved = json.loads(json.dumps(jobs[0]).replace('"results/', f'"{given}/'))
        with contextlib.chdir(folder):
            run_job(Job(*moved))
        state.read_scores()
    assert set() in answered
    methods = {row["method"] for row in state.progress.join_recorded_runs()}
    assert methods == {"gem", "gem by random", "layernorm"}
    [gradient] = [job for job in state.jobs_by_output.values() if job.step == "gradient"]
    assert state.methods_needing(gradient) == {("minilm", "gem")}


@pytest.mark.slow
def test_after_cross_validation_the_entries_of_a_fold_are_trained_on_all_rows(planned, tmp_path):
    task = {"files": {"train": "train.csv"}}
    context = planned(task=task, folds=2, seeds=[0, 1])
    first = next(run for run in context.plan.runs.values() if run.method == "gem")
    entries = read_entry_hashes(Path(context.layout.mask(m)) for m in find_masks(context))
    assert len(entries) == 2
    run = first.with_entries(entries.__getitem__).spec.id
    predict_table(context.layout, run, tmp_path / "train.csv", tmp_path / "predicted.csv")
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == 9


@pytest.mark.slow
def test_tasks_with_other_heads_share_what_they_have(settings, tiny_bert, tmp_path):
    """A model for words has no pooler."""
    settings["models"]["minilm"] = {"path": str(tiny_bert)}
    top = {"of": ["**.dense.bias"], "by": "gradient"}
    settings["selections"] = {"all": {"top": top | {"share": 0.5, "scope": "global"}}}
    settings["experiments"]["first"] |= {
        "tasks": ["mine", "ud_ewt"], "methods": {"all": [1e-3]}, "max_length": 32
    }  # fmt: skip
    context = plan_and_check(check_config(settings))
    jobs = plan_jobs(context).jobs
    for step in STEPS[: STEPS.index("mask") + 1]:
        for job in jobs[step].values():
            run_job(job)
    found = {
        run.task_name: {*load_file(context.layout.mask(run.masks[0].id))}
        for run in context.plan.runs.values()
    }
    assert "pooler.dense.bias" in found["mine"] and "pooler.dense.bias" not in found["ud_ewt"]
