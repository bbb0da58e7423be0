"""A run's checkpoints belong to the run, whatever trains beside it."""

from pathlib import Path

import pytest

from subtune.comparison.loop import Clock, Loop
from subtune.config.checks import check_config
from subtune.runs import records
from subtune.steps import dataset, model, tokens
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
    state = Loop(context, Clock(0, 60))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recorded_runs, "write_record", interrupt)
        run_job(state._make_training_job(state.progress.planned))
    first, second = [run.spec.id for run in state.progress.planned]
    folder, store = Path(context.paths.checkpoints()), Path(context.paths.records())
    assert {path.name for path in folder.iterdir()} == {first, second}
    capsys.readouterr()
    run_job(state._make_training_job(state.progress.planned[:1]))
    assert "from step 2 of 2" in capsys.readouterr().out
    # Only the checkpoints of recorded runs are removed.
    assert records.is_recorded(store, first) and not records.is_recorded(store, second)
    assert [path.name for path in folder.iterdir()] == [second]
