"""The recipes of CONTRIBUTING and of docs/own-paper.md work as they stand there."""

import os
import subprocess
import sys

from tests.helpers import pages
from tests.helpers.examples import run_spec

ROWS = """\
{"premise": "It rains.", "hypothesis": "It is wet.", "label": "entailment"}
{"premise": "It rains.", "hypothesis": "It is dry.", "label": "contradiction"}
"""
# A script that uses the copy of the library after all recipes are applied.
RESULTS = """
from pathlib import Path

import yaml

from subtune.config.checks import check_config
from subtune import papers
from subtune.data import sources
from subtune.methods.roles import family_naming
from subtune.plan.plan import make_plan
from subtune.analysis.tables import column_meanings
from subtune.methods import METHODS
from subtune.runs.spec import Recipe
from subtune.steps.exhibits import list_computed_tables
from subtune.tasks import TASKS
from subtune.tasks.metrics import TITLES, compute_metrics
from tests.helpers.examples import run_spec, scored
from tests.helpers.exhibits import results

scores = compute_metrics("classes", ["balanced_accuracy"], [0, 0, 1], [0, 1, 1])
assert scores == {"balanced_accuracy": 0.75}
assert TITLES["balanced_accuracy"] == "balanced accuracy"
assert METHODS["queries"].parameters == ("encoder.layer.*.attention.self.query.*",)
assert family_naming("gptj").inside["mlp.fc_out"]
assert list(column_meanings(["seconds_per_epoch"])["meaning"]) == ["the mean seconds of an epoch"]

assert run_spec().id == OLD_ID
assert run_spec(beta2=0.98).id != OLD_ID

by_split = sources.official_files(".", TASKS["cb"])
rows = sources.read_columns(TASKS["cb"], by_split)["train"]
assert rows["label"] == [0, 1]

given = yaml.safe_load(Path("toys.yaml").read_text())
given["experiments"]["toys"]["beta2"] = 0.98
checked = papers.assign_papers(check_config(given))
paper = papers.find_paper(checked.experiments["toys"].paper)
exhibits = {exhibit.name for exhibit in paper.all_exhibits()}
assert {"table1", "figure1", "figure2", "claims", "reproduction"} <= exhibits
assert {*list_computed_tables(paper, ["rte"])} == {"claims", "left_open", "reproduction"}
assert {of.spec.recipe.beta2 for of in make_plan(checked).runs.values()} == {0.98}

[bars] = [exhibit.make for exhibit in paper.exhibits if exhibit.name == "figure2"]
rows = [("rte", "full", 1.0, None, 1e-4, seed, score) for seed, score in ((0, 0.6), (1, 0.8))]
[bar] = bars(results({"rte": "RTE"}, chosen=scored(*rows))).axes[0].patches
assert bar.get_width() == 0.7
"""


def test_the_recipes_of_the_pages_work_together_on_a_copy(tmp_path):
    pages.copy_with_all(tmp_path)
    for split in ("train", "val"):
        (tmp_path / f"{split}.jsonl").write_text(ROWS)
    done = subprocess.run(
        [sys.executable, "-c", RESULTS.replace("OLD_ID", repr(run_spec().id))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
