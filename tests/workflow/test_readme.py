"""Every command in the README: those that a test can run are run, the others are named here."""

import re

import pytest
import yaml

from subtune import config
from subtune.config.schema import OwnTask
from subtune.data import files
from subtune.models.dimensions import dimensions_in
from subtune.selections import SELECTION
from subtune.tasks.kinds import KINDS
from tests.helpers.project import ROOT, call

COMMANDS = [
    line.strip()
    for line in (ROOT / "README.md").read_text().splitlines()
    if re.match(r" {4}(make|\.venv)", line)
]
# The demo takes minutes and is run by `make demo`; the tests cannot run themselves; the paper's
# scale needs a hub and a GPU; the real GLUE files take hours. Their plans are tested instead.
PLANNED_ONLY = {
    "make demo": "snakemake --profile demo -n",
    "make test": "make -n test",
    ".venv/bin/snakemake -c8 layernorm": "snakemake -n layernorm",
    ".venv/bin/snakemake --profile slurm layernorm": "snakemake --profile slurm -n layernorm",
    ".venv/bin/snakemake -c8 layernorm --forcerun scores": (
        "snakemake -n layernorm --forcerun scores"
    ),
    ".venv/bin/snakemake -c2 --configfile examples/glue-minilm.yaml --config glue_dir=glue": (
        "snakemake -n --configfile examples/glue-minilm.yaml --config glue_dir=GLUE_DIR"
    ),
    ".venv/bin/snakemake -c2 --configfile examples/bitfit-plus.yaml --config glue_dir=glue": (
        "snakemake -n --configfile examples/bitfit-plus.yaml --config glue_dir=GLUE_DIR"
    ),
    # It writes a file; tests/workflow/test_init.py trains one like it.
    ".venv/bin/subtune init --train examples/weather-train.csv --dev examples/weather-dev.csv": (
        "subtune init --train examples/weather-train.csv --dev examples/weather-dev.csv --to NEW"
    ),
    ".venv/bin/snakemake -c2 --configfile weather.yaml": "snakemake --help",
    "make docs": "make -n docs",
    # tests/workflow/test_own_tasks.py trains it.
    ".venv/bin/snakemake -c2 --configfile examples/own-words-and-questions.yaml": (
        "snakemake -n --configfile examples/own-words-and-questions.yaml"
    ),
    "make report": "snakemake --profile demo -n -- report_page",
    # It shows what is there; tests/workflow/test_papers.py makes one.
    ".venv/bin/snakemake --profile demo --report snakemake-report.html": "snakemake --help",
    ".venv/bin/subtune check-submission ZIP": "subtune check-submission --help",
    # Without a demo on record there is nothing to list or export.
    ".venv/bin/subtune runs --results results/demo --task rte": "subtune runs --help",
    ".venv/bin/subtune export RUN --results results/demo --to my-model": "subtune export --help",
    ".venv/bin/subtune verify --results results/demo": "subtune verify --help",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(command, request, tmp_path):
    planned = PLANNED_ONLY.get(command, command)
    slots = {"FILE": "config.yaml", "NEW": str(tmp_path / "new.yaml")}
    if "GLUE_DIR" in planned:
        slots["GLUE_DIR"] = str(request.getfixturevalue("glue_dir"))
    done = call(planned, **slots)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_has_commands():
    assert "make demo" in COMMANDS and len(COMMANDS) >= 6


def test_the_selections_of_the_readme_fit_a_model_of_six_layers(minilm):
    [block] = re.findall(r"```yaml\n(selections:.*?)```", (ROOT / "README.md").read_text(), re.S)
    shapes = dimensions_in(minilm).shapes(outputs=2)
    selections = yaml.safe_load(block)["selections"]
    assert len(selections) == 3
    for selection in selections.values():
        SELECTION.validate_python(selection).resolve(shapes, seed=0)


def test_the_tasks_of_the_readme_are_one_of_each_kind_and_read_their_files():
    [block] = re.findall(r"```yaml\n(tasks:.*?)```", (ROOT / "README.md").read_text(), re.S)
    tasks = {name: OwnTask(**given) for name, given in yaml.safe_load(block)["tasks"].items()}
    assert [task.kind_name for task in tasks.values()] == [*KINDS]
    # The pairs stand for a file of the reader's own.
    for name in ("weather", "recipes", "shops"):
        paths = {split: ROOT / path for split, path in tasks[name].files.items()}
        columns = files.columns_of(tasks[name].task(name), paths)
        assert all(columns[split]["idx"] for split in ("train", "validation"))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_a_configuration_without_problems(path):
    assert config.read(path).experiments


@pytest.mark.parametrize("name", ["own", "own-words-and-questions"])
def test_an_example_whose_files_are_here_can_be_run(name):
    done = call(f"subtune check examples/{name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_and_pictures_of_the_readme_are_there():
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).is_file(), target
