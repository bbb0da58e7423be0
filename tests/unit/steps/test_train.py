"""A run's checkpoints belong to the run, whatever trains beside it."""

from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from subtune import steps
from subtune.comparison.loop import Loop, TimeLimit
from subtune.config.checks import check_config
from subtune.runs import records
from subtune.steps import dataset, model, tokens, train
from subtune.steps.context import plan_and_check
from subtune.steps.jobs import run_job
from subtune.training import recorded_runs


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint_in_another_group_of_runs(
    settings, tiny_bert, monkeypatch, capsys
):
    def interrupt(*of):
        raise KeyboardInterrupt

    settings["models"]["minilm"] = {"path": str(tiny_bert)}
    settings["experiments"]["first"] |= {
        "methods": {"bitfit": [1e-3], "layernorm": [1e-3]},
        "max_length": 32,
    }
    context = plan_and_check(check_config(settings | {"checkpoint_minutes": 0}))
    for step in (dataset, model, tokens):
        for job in step.jobs(context):
            run_job(job)
    state = Loop(context, TimeLimit(0, 60))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recorded_runs, "write_record", interrupt)
        run_job(state._make_training_job(state.progress.planned))
    first, second = [run.spec.id for run in state.progress.planned]
    folder, store = Path(context.layout.checkpoints()), Path(context.layout.records())
    assert {path.name for path in folder.iterdir()} == {first, second}
    capsys.readouterr()
    run_job(state._make_training_job(state.progress.planned[:1]))
    assert "from step 2 of 2" in capsys.readouterr().out
    # Only the checkpoints of recorded runs are removed.
    assert records.is_recorded(store, first) and not records.is_recorded(store, second)
    assert [path.name for path in folder.iterdir()] == [second]


@pytest.mark.slow
def test_a_job_that_only_reads_texts_holds_no_gpu(settings, monkeypatch):
    """Embeddings need a GPU for the pass through the model."""
    gpus = {}
    for method in ("embeddings", "bitfit", "tf-idf"):
        settings["experiments"]["first"]["methods"] = {
            method: [1e-3] if method == "bitfit" else None
        }
        context = plan_and_check(check_config(settings))
        [job] = train.jobs(context)
        gpus[method] = job.resources["gpu"]
    assert gpus == {"embeddings": 1, "bitfit": 1, "tf-idf": 0}
    for step in (dataset, model, tokens):
        for made in step.jobs(context):
            run_job(made)
    # The GPUs of this machine are in use, and its tests may have none.
    monkeypatch.setattr(steps.jobs, "hold_gpu", Mock(side_effect=AssertionError))
    monkeypatch.setattr(train, "prepare_device", lambda threads: torch.device("cuda"))
    run_job(job)
    [run] = context.plan.runs.values()
    assert records.is_recorded(Path(context.layout.records()), run.spec.id)
