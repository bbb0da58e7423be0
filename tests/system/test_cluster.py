"""Jobs on a real Slurm that are cut off in every way give the same results as a laptop."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pandas as pd
import psutil
import pytest
import yaml

from tests.helpers import cluster
from tests.helpers.project import ROOT, SNAKEMAKE, TASK, Project, printed

# Slurm's plugin waits 10 s longer after each time that it finds no finished job.
CHECKS = "--slurm-init-seconds-before-status-checks"
PROFILE = ["--profile", "slurm", CHECKS, "1", "--latency-wait", "5"]
STEPS_BEFORE = 10


@pytest.fixture(scope="module")
def slurm():
    """A cluster of one node."""
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    cluster.start()
    yield
    cluster.stop()


@pytest.fixture(scope="module")
def reference(finished_project, tmp_path_factory) -> Project:
    """One sweep of a tiny model, trained here without any interruption."""
    project = finished_project.copy(tmp_path_factory.mktemp("reference") / "project")
    project.config = project.changed(tasks=[TASK], epochs=30, fractions=None)
    project.config["test_scores"] = None
    shutil.rmtree(project.directory / "results" / "runs")
    project.run(project.config, "--until", "train")
    # On Slurm each step writes a checkpoint, so that a test can cut a job off anywhere.
    project.config["checkpoint_minutes"] = 0
    return project


@pytest.fixture
def project(reference, tmp_path, slurm) -> Project:
    """The reference's project before training."""
    copied = reference.copy(tmp_path / "project")
    for name in ("sweeps", "runs", "logs", "checkpoints"):
        shutil.rmtree(copied.directory / "results" / name, ignore_errors=True)
    return copied


@pytest.fixture
def submit() -> Iterator[Callable[..., "Submitted"]]:
    """A function that starts a `Submitted`. After the test, those that still run are stopped."""
    started: list[Submitted] = []

    def start(*arguments, **options) -> Submitted:
        started.append(Submitted(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
    cluster.cancel_all()


@pytest.fixture
def submitted(project, submit) -> "Submitted":
    """The project's sweep on Slurm, after some epochs."""
    submitted = submit(project)
    cluster.wait_for(lambda: submitted.step() > STEPS_BEFORE, "a checkpoint", 300)
    return submitted


class Submitted:
    """A running `snakemake --profile slurm` in a project."""

    def __init__(self, project: Project, targets: Sequence[str] = ("--until", "train")):
        self.directory = project.directory
        (self.directory / "mine.yaml").write_text(yaml.safe_dump(project.config, sort_keys=False))
        self.output = self.directory / "snakemake.log"
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [*SNAKEMAKE, *PROFILE, "--configfile", "mine.yaml", *targets],
                cwd=self.directory,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> str:
        """Return its output after it has ended without an error."""
        code = self.process.wait(timeout=600)
        text = self.output.read_text()
        assert code == 0, text
        return text

    def step(self) -> int:
        """Return the step of the newest checkpoint."""
        found = (self.directory / "results/checkpoints").glob("*/[0-9]*.safetensors")
        return max((int(path.name.partition(".")[0]) for path in found), default=0)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the training script."""
        return [
            one
            for one in psutil.process_iter(["cwd", "cmdline"])
            if one.info["cwd"] == str(self.directory.resolve())
            and "".join((one.info["cmdline"] or [])[-1:]).endswith("step.py")
        ]

    def log(self) -> str:
        """Return the newest attempt's log. Snakemake removes the log of the attempt before."""
        logs = (self.directory / "results/logs/train").glob("*.log")
        return "".join(path.read_text() for path in logs)


def assert_same_results(project: Project | Submitted, reference: Project) -> None:
    """Compare everything but times to the last bit, and expect that no checkpoint is left."""
    found, expected = (one.directory / "results" for one in (project, reference))
    runs = sorted(path.name for path in (expected / "runs").iterdir())
    assert sorted(path.name for path in (found / "runs").iterdir()) == runs
    for run in runs:
        for path in (expected / "runs" / run).iterdir():
            if path.name not in ("history.csv", "provenance.json", "checksums.json"):
                assert (found / "runs" / run / path.name).read_bytes() == path.read_bytes()
    assert not list((found / "checkpoints").glob("*"))


def assert_goes_on(submitted: Submitted, step: int, reference: Project) -> None:
    """Wait until the sweep ends and compare its results with the reference's.

    The last attempt must have continued from the checkpoint at ``step`` or a later one.
    """
    submitted.wait()
    [at] = re.findall(r"continues from step (\d+)", submitted.log())[:1]
    assert int(at) >= step > STEPS_BEFORE
    assert_same_results(submitted, reference)


@pytest.mark.nightly
@pytest.mark.fault(
    "interruptions", "a job or node is lost, cancelled or out of time", "the next attempt continues"
)
def test_a_job_that_is_killed_goes_on(submitted, reference):
    step = submitted.step()
    [process] = submitted.processes()
    process.kill()
    assert_goes_on(submitted, step, reference)


def test_a_job_that_is_cancelled_goes_on(submitted, reference):
    step = submitted.step()
    job = cluster.ask("squeue", "-h", "-o", "%A").strip()
    assert "TresPerJob=gres:gpu:1" in cluster.ask("scontrol", "show", "job", job)
    cluster.ask("scancel", job)
    cluster.wait_for(lambda: "error: stopped by SIGTERM" in submitted.log(), "the job to stop")
    assert_goes_on(submitted, step, reference)


@pytest.mark.nightly
def test_a_job_at_its_time_limit_goes_on(submitted, reference):
    [process] = submitted.processes()
    # It stops until Slurm warns it, which also lets it go on. Slurm checks limits twice a minute.
    process.suspend()
    job = cluster.ask("squeue", "-h", "-o", "%A").strip()
    cluster.ask("scontrol", "update", f"jobid={job}", "EndTime=now+60")
    step = submitted.step()
    cluster.wait_for(lambda: "error: stopped by SIGTERM" in submitted.log(), "the job to stop")
    assert_goes_on(submitted, step, reference)


@pytest.mark.nightly
def test_a_job_whose_node_is_lost_goes_on(submitted, reference):
    step = submitted.step()
    assert submitted.processes()
    cluster.lose_node()
    lost = submitted.processes()
    cluster.start_node()
    assert not lost
    assert_goes_on(submitted, step, reference)


@pytest.mark.nightly
def test_snakemake_that_is_killed_can_be_called_again(submitted, project, reference, submit):
    submitted.process.kill()
    submitted.process.wait()
    project.run(project.config, "--unlock")
    submit(project).wait()
    assert_same_results(project, reference)


@pytest.fixture
def closed_partition(slurm):
    """A cluster whose jobs wait in the queue, and a function that lets them start."""
    change = partial(cluster.ask, "scontrol", "update", "partitionname=main")
    change("state=DOWN")
    yield partial(change, "state=UP")
    change("state=UP")


@pytest.mark.nightly
def test_a_waiting_job_has_the_plan_of_its_call(closed_partition, project, submit, reference):
    submitted = submit(project)
    cluster.wait_for(lambda: cluster.ask("squeue", "-h"), "the job to wait", 300)
    with (project.directory / f"{TASK}-validation.csv").open("a") as file:
        file.write("the quick dog is happy,happy\n")
    assert project.planned(project.config)["train"] == 1
    closed_partition()
    submitted.wait()
    assert_same_results(project, reference)


@pytest.mark.nightly
def test_a_job_has_the_gpu_it_asked_for_and_others_have_none(slurm, tmp_path):
    """The cluster's GPUs are device files without a GPU behind them."""
    script = "import os\nopen(snakemake.output[0], 'w').write(str(sorted(os.environ.items())))\n"
    (tmp_path / "show.py").write_text(script)
    shutil.copytree(ROOT / "slurm", tmp_path / "slurm")
    (tmp_path / "Snakefile").write_text(
        "rule all:\n    localrule: True\n    input: 'train', 'tokens'\n"
        "rule train:\n    output: 'train'\n    resources: gpu=1\n    script: 'show.py'\n"
        "rule tokens:\n    output: 'tokens'\n    script: 'show.py'\n"
    )
    printed([*SNAKEMAKE, *PROFILE], tmp_path)
    assert "('CUDA_VISIBLE_DEVICES', '0')" in (tmp_path / "train").read_text()
    assert "CUDA_VISIBLE_DEVICES" not in (tmp_path / "tokens").read_text()


@pytest.mark.nightly
@pytest.mark.fault("numbers", "the demo on Slurm instead of a laptop", "same tables, byte for byte")
def test_the_demo_at_reduced_size_gives_the_tables_of_a_laptop(slurm, submit, tmp_path, tiny_bert):
    config = yaml.safe_load((ROOT / "demo/config.yaml").read_text())["config"]
    experiment = config["experiments"]["layernorm"]
    *tasks, left_out = experiment["tasks"]
    experiment |= {"tasks": tasks, "epochs": 1}
    experiment["by_task"].pop(left_out, None)
    experiment["methods"].pop("random")
    experiment["fractions"]["scopes"] = ["individual"]
    config |= {"experiments": {"layernorm": experiment}, "results": "results"}
    laptop, on_slurm = (Project(tmp_path / name, tiny_bert) for name in ("laptop", "on-slurm"))
    names = ("table1", "table2", "choices", "kruskal_wallis")
    folder = "results/experiments/layernorm"
    tables = [f"{folder}/{name}.{ending}" for name in names for ending in ("csv", "md")]
    on_slurm.config = config
    submitted = submit(on_slurm, targets=("--", folder))
    laptop.run(config, "--", folder)
    text = submitted.wait()
    for table in tables:
        found, expected = (one.directory / table for one in (on_slurm, laptop))
        assert found.read_bytes() == expected.read_bytes()
    of_laptop = laptop.directory / "results/runs"
    for run in of_laptop.iterdir():
        for name in ("delta.safetensors", "scores.json", "predictions.parquet"):
            again = on_slurm.directory / "results/runs" / run.name / name
            assert again.read_bytes() == (run / name).read_bytes()
    # One job per task for token ids, one per task for Fisher information, and one per sweep.
    sweeps = list((on_slurm.directory / "results/sweeps").glob("*.csv"))
    assert text.count("has been submitted") == 2 * len(tasks) + len(sweeps)


@pytest.mark.nightly
def test_code_of_the_user_runs_on_slurm_as_on_a_laptop(slurm, submit, tmp_path, tiny_bert):
    laptop, on_slurm = (Project(tmp_path / name, tiny_bert) for name in ("laptop", "on-slurm"))
    for project in (laptop, on_slurm):
        for name in ("my_rules.py", "my_models.py", "my_metrics.py"):
            shutil.copy(ROOT / "examples" / name, project.directory)
    methods = {"full": [1e-3], "gem": [1e-2], "own": None, "trees": None}
    config = laptop.changed(methods=methods, fractions=None, folds=2, seeds=[0, 1])
    task = config["tasks"][TASK]
    del task["files"]["validation"]
    task["metrics"] = ["accuracy", "my_metrics.py:cost"]
    matrices = ["encoder.layer.**.dense.weight"]
    config["selections"] = {"gem": {"top": {"share": 0.1, "by": "my_rules.py:gem", "of": matrices}}}
    config["baselines"] = {
        "own": {"estimator": "my_models.py:make", "reads": "texts"},
        "trees": {"estimator": "sklearn.tree.DecisionTreeClassifier", "reads": "embeddings"},
    }
    on_slurm.config = config
    submitted = submit(on_slurm, targets=())
    laptop.run(config)
    submitted.wait()
    assert_same_results(submitted, laptop)
    summary = "results/experiments/layernorm/summary.csv"
    found, expected = (
        pd.read_csv(one.directory / summary).drop(columns="seconds") for one in (on_slurm, laptop)
    )
    pd.testing.assert_frame_equal(found, expected)
    assert {"gem", "own", "trees"} <= {*found["method"]}


REFUSALS = {
    "account": (
        ["train:slurm_account=nobody", "train:slurm_partition=lab"],
        "Invalid account or account/partition combination specified",
    ),
    "partition": (["train:slurm_partition=nowhere"], "Invalid partition name specified"),
    "memory": (["train:mem_mb=99000000"], "Requested node configuration is not available"),
}


@pytest.mark.nightly
@pytest.mark.parametrize(("resources", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_job_that_is_refused_is_named_with_the_cluster_s_words(project, submit, resources, words):
    submitted = submit(project, ["--until", "train", "--set-resources", *resources])
    assert submitted.process.wait(timeout=300) == 1
    text = submitted.output.read_text()
    last = text.splitlines()[-1]
    assert last.startswith("train ")
    assert f"sbatch: error: Batch job submission failed: {words}" in last
    # It is tried again three times.
    assert text.count("Error in rule train:") == 4
