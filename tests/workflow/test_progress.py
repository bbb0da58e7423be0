"""The progress of sweeps, read from the files of a real run."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from subtune import cli, config
from subtune.core.layout import Layout
from subtune.planning import progress
from subtune.planning.cost import Estimates
from subtune.planning.plan import plan as plan_of
from subtune.runs import events

TARGET = "results/experiments/layernorm/choices.md"
LAYOUT = Layout("results")


# Each of the three sweeps has six runs of two epochs.
ONE_RUN = 1 / 6


@pytest.fixture
def project(finished_project, tmp_path, monkeypatch):
    """Three sweeps: one is done, one was cut off after its first run, and one has not begun."""
    copied = finished_project.copy(tmp_path / "project")
    monkeypatch.chdir(copied.directory)
    plan = plan_of(config.read(Path("mine.yaml")))
    cut, waiting = list(plan.sweeps)[:2]
    for sweep in (cut, waiting):
        Path(f"results/sweeps/{sweep}.csv").unlink()
    for run in (*plan.sweeps[cut].runs[1:], *plan.sweeps[waiting].runs):
        shutil.rmtree(f"results/runs/{run}")
    Path(LAYOUT.progress(waiting)).unlink()
    return copied, plan, cut


def reported(sweep: str, *told: dict) -> None:
    """Write these events of a sweep's job, after its start."""
    start = {"event": "started", "host": "node1", "slurm_job": "17"}
    whole = [{"time": "2026-01-01T12:00:00+00:00", "text": "…"} | event for event in (start, *told)]
    Path(LAYOUT.progress(sweep)).write_text("".join(json.dumps(e) + "\n" for e in whole))


def states(plan, jobs=None):
    return {s.key: s for s in progress.sweeps(LAYOUT, plan, jobs)}


def test_a_job_reports_its_start_epochs_records_and_its_end(finished_project, monkeypatch):
    monkeypatch.chdir(finished_project.directory)
    plan = plan_of(config.read(Path("mine.yaml")))
    for key, sweep in plan.sweeps.items():
        told = events.read(Path(LAYOUT.progress(key)))
        kinds = [event["event"] for event in told]
        assert kinds[0] == "started" and kinds[-1] == "done"
        assert {e["run"] for e in told if e["event"] == "recorded"} == set(sweep.runs)
        epochs = [(e["run"], e["epoch"], e["epochs"]) for e in told if e["event"] == "epoch"]
        assert sorted(epochs) == sorted((run, n, 2) for run in sweep.runs for n in (1, 2))
        log = Path(LAYOUT.log("train", key)).read_text()
        assert all(event["text"] in log for event in told[:-1])


def test_an_epochs_event_has_the_numbers_of_the_learning_curve(finished_project, monkeypatch):
    monkeypatch.chdir(finished_project.directory)
    plan = plan_of(config.read(Path("mine.yaml")))
    told = events.read(Path(LAYOUT.progress(next(iter(plan.sweeps)))))
    event = next(event for event in told if event["event"] == "epoch")
    row = pd.read_csv(Path(LAYOUT.records()) / event["run"] / "history.csv").iloc[0]
    assert event["metric"] == "accuracy"
    assert event["train_loss"] == row["train_loss"]
    assert event["score"] == row["validation/accuracy"]
    assert event["seconds"] == row["seconds"]


def test_states_and_shares(project):
    _, plan, cut = project
    reported(cut, {"event": "epoch", "run": plan.sweeps[cut].runs[1], "epoch": 1, "epochs": 2})
    found = states(plan, {"17"})
    assert sorted(s.state for s in found.values()) == ["done", "running", "waiting"]
    assert found[cut].share == pytest.approx(1.5 * ONE_RUN)
    assert states(plan, {"18"})[cut].state == "lost"
    assert states(plan, None)[cut].state == "running"


@pytest.mark.parametrize("end", ["stopped", "failed"])
def test_the_last_event_says_what_happened_until_the_next_attempt(project, end):
    _, plan, cut = project
    reported(cut, {"event": end})
    assert states(plan, {"18"})[cut].state == end
    reported(cut, {"event": end}, {"event": "started", "slurm_job": "18"})
    assert states(plan, {"18"})[cut].state == "running"


def test_a_line_that_a_killed_job_left_torn_is_passed_over(project):
    _, plan, cut = project
    run = plan.sweeps[cut].runs[1]
    reported(cut, {"event": "epoch", "run": run, "epoch": 1, "epochs": 2})
    path = Path(LAYOUT.progress(cut))
    with path.open("a") as file:
        file.write('{"time": "2026-01-01T12:00:')
    assert states(plan, {"17"})[cut].share == pytest.approx(1.5 * ONE_RUN)
    with events.attempt(path):
        assert states(plan)[cut].last.startswith("on ")
    assert [event["event"] for event in events.read(path)][-2:] == ["started", "done"]


def test_an_attempt_whose_start_could_not_be_written_is_taken_to_run(project):
    _, plan, cut = project
    event = {"time": "2026-01-01T12:00:00+00:00", "event": "note", "text": "…"}
    Path(LAYOUT.progress(cut)).write_text(json.dumps(event) + "\n")
    assert states(plan)[cut].state == "running"


def test_a_deleted_record_trains_anew(project):
    _, plan, cut = project
    run = plan.sweeps[cut].runs[1]
    epochs = [{"event": "epoch", "run": run, "epoch": n, "epochs": 2} for n in (1, 2)]
    reported(cut, *epochs, {"event": "recorded", "run": run}, {"event": "started"})
    assert states(plan)[cut].share == pytest.approx(ONE_RUN)


def test_time_left_is_the_rest_of_the_work_at_the_pace_so_far(project):
    _, plan, cut = project
    reported(cut)
    estimates = Estimates(config.read(Path("mine.yaml")), plan)
    found = list(states(plan).values())
    left = progress.seconds_left(LAYOUT, found, estimates)
    done = [s.key for s in found if s.state == "done"]
    took = sum(_seconds(key) for key in done)
    expected = sum(estimates.sweep(key).seconds for key in done)
    rest = sum((1 - s.share) * estimates.sweep(s.key).seconds for s in found)
    assert left == pytest.approx(rest * took / expected)
    nothing_runs = [s._replace(state="waiting") for s in found]
    assert progress.seconds_left(LAYOUT, nothing_runs, estimates) is None


def _seconds(sweep: str) -> float:
    return float(pd.read_csv(f"results/benchmarks/train/{sweep}.tsv", sep="\t")["s"].iloc[0])


def test_a_job_asks_for_more_memory_than_it_takes(project):
    _, plan, _ = project
    estimates = Estimates(config.read(Path("mine.yaml")), plan)
    for path in Path("results/benchmarks/train").glob("*.tsv"):
        took = float(pd.read_csv(path, sep="\t")["max_rss"].iloc[0])
        assert 200 < took < estimates.sweep_memory(path.stem)


def test_the_command_names_what_failed_and_its_log(project, capsys):
    cut = project[2]
    reported(cut, {"event": "failed", "text": "the disk is full (while writing): free some space"})
    assert cli.main(["progress", "mine.yaml"]) == 0
    text = capsys.readouterr().out
    assert "1 failed" in text and "1 waiting" in text
    assert "the disk is full" in text and f"results/logs/train/{cut}.log" in text


def test_the_plan_compares_itself_with_what_was_measured(project, capsys):
    assert cli.main(["plan", "mine.yaml"]) == 0
    text = capsys.readouterr().out
    assert "| layernorm" in text and "| teraflops" in text
    assert "Measured so far: 3 sweeps took" in text


def test_a_missing_configuration_is_one_line(capsys):
    for command in ("plan", "progress"):
        assert cli.main([command, "nowhere.yaml"]) == 1
        assert capsys.readouterr().err == "found no configuration file 'nowhere.yaml'\n"
        assert cli.main([command, "."]) == 1
        assert ".: is a directory, expected a file" in capsys.readouterr().err
