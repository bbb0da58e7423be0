"""Papers on a tiny model and a few rows of the mini tasks.

They are BEFT, BitFit, BitFit+, SPAFIT and the one that CONTRIBUTING adds.
"""

from pathlib import Path

from tests.helpers import recipes
from tests.helpers.project import Project

SETTINGS = {"models": ["tiny"], "epochs": 1, "batch_size": 8, "max_length": 16, "train_rows": 16}
RATES = [1e-3]
EXPERIMENTS = {
    "beft": {
        **SETTINGS,
        "tasks": ["rte"],
        "by_task": {"rte": {"train_rows": [8, 16], "learning_rates": RATES}},
        "methods": dict.fromkeys(["full", "bitfit", "b_q", "b_k", "b_v", "frozen"]),
        "fisher": {"rows": 8},
    },
    "bitfit": {
        **SETTINGS,
        "paper": "bitfit",
        "tasks": ["rte"],
        "methods": {"full": RATES, "bitfit": [1e-3, 1e-2], "b_m2,b_q": RATES, "frozen": RATES},
        # BitFit's figure of training sizes.
        "train_rows": [8, 16],
    },
    "bitfit_plus": {
        **SETTINGS,
        "paper": "bitfit_plus",
        "tasks": ["rte"],
        "by_task": {"rte": {"learning_rates": RATES}},
        "methods": dict.fromkeys(
            ["bitfit", "g_LN1,g_LN2", "rand_row_col", "bitfit without b_m2,b_q"]
        ),
        "seeds": [0, 1],
    },
    "spafit": {
        **SETTINGS,
        "paper": "spafit",
        "tasks": ["rte", "stsb"],
        "weight_decay": 0.01,
        "methods": {"full": RATES, "lora-I": RATES, "full-bitfit": RATES, "mixed": RATES},
    },
    "toys": {
        **SETTINGS,
        "tasks": ["rte"],
        "methods": {"full": RATES, "bitfit": None},
        "learning_rates": "search",
        "seeds": [0, 1],
    },
}
MIXED = {
    "lora": {"targets": ["encoder.layer.1.attention.self.*.weight"], "rank": 2, "alpha": 4},
    "parameters": ["encoder.layer.0.**.bias", "encoder.layer.1.output.*.bias"],
}


def project(directory: Path, model: Path) -> Project:
    """Return a project with the papers' configuration and a library of its own."""
    project = Project(directory, model)
    project.environment = {"PYTHONPATH": str(directory / "src")}
    project.config |= {"tasks": {}, "experiments": EXPERIMENTS, "selections": {"mixed": MIXED}}
    project.config["runs_per_job"] = 20
    return project


def build(directory: Path, model: Path) -> None:
    """Run all of it in a new directory."""
    recipes.copy_with_all(directory)
    papers = project(directory, model)
    papers.run(papers.config, "--quiet", "all")
