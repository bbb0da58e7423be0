"""How far sweeps are, read from what a real run leaves."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from subtune import cli, config, progress
from subtune.cost import Estimates
from subtune.plan import plan as plan_of
from tests.helpers.project import Project

TARGET = "results/layernorm/choices.md"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_bert):
    project = Project(tmp_path_factory.mktemp("finished"), tiny_bert)
    experiment = project.config["experiments"]["layernorm"]
    experiment |= {"fractions": None, "epochs": 2, "tasks": ["mood"], "seeds": [0, 1]}
    project.config["runs_per_job"] = 2
    project.run(project.config, "--", TARGET)
    return project


@pytest.fixture
def project(finished, tmp_path, monkeypatch):
    """Of three sweeps one is done, one was cut off after its first run, one has not begun."""
    copied = finished.copy(tmp_path / "project")
    monkeypatch.chdir(copied.directory)
    plan = plan_of(config.read(Path("mine.yaml")))
    cut, waiting = list(plan.sweeps)[:2]
    for sweep in (cut, waiting):
        Path(f"results/sweeps/{sweep}.csv").unlink()
    for run in (*plan.sweeps[cut].runs[1:], *plan.sweeps[waiting].runs):
        shutil.rmtree(f"results/runs/{run}")
    Path(f"results/logs/train/{waiting}.log").unlink()
    return copied, plan, cut


def log(sweep: str, *lines: str) -> None:
    text = "".join(f"12:00:00  {line}\n" for line in lines)
    Path(f"results/logs/train/{sweep}.log").write_text(text)


def states(plan, jobs=None):
    return {s.key: s for s in progress.sweeps(Path("results"), plan, jobs)}


def test_states_and_shares(project):
    _, plan, cut = project
    log(cut, "on host, Slurm job 17", "run 1  epoch 1/2  loss 0.7  accuracy 0.5  0.1 s")
    found = states(plan, {"17"})
    assert sorted(s.state for s in found.values()) == ["done", "running", "waiting"]
    assert found[cut].share == 0.75
    assert states(plan, {"18"})[cut].state == "lost"
    assert states(plan, None)[cut].state == "running"


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("error: stopped by SIGTERM: the next attempt goes on from here", "stopped"),
        ("error: results/tokens/x is missing", "failed"),
        ("torch.OutOfMemoryError: CUDA out of memory", "failed"),
    ],
)
def test_what_a_log_ends_with_says_what_happened(project, line, state):
    _, plan, cut = project
    log(cut, "on host", line)
    assert states(plan)[cut].state == state


def test_time_left_is_the_rest_of_the_work_at_the_pace_so_far(project):
    _, plan, cut = project
    log(cut, "on host")
    estimates = Estimates(config.read(Path("mine.yaml")), plan)
    found = list(states(plan).values())
    left = progress.seconds_left(Path("results"), plan, estimates, found)
    done = [s.key for s in found if s.state == "done"]
    took = sum(_seconds(key) for key in done)
    expected = sum(estimates.sweep(key).seconds for key in done)
    rest = sum((1 - s.share) * estimates.sweep(s.key).seconds for s in found)
    assert left == pytest.approx(rest * took / expected)
    nothing_runs = [s._replace(state="waiting") for s in found]
    assert progress.seconds_left(Path("results"), plan, estimates, nothing_runs) is None


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
    log(cut, "on host", "error: the disk is full (while writing): free some space")
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
