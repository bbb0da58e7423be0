# The configuration, checked, and the plan of every stage that follows from it.

from snakemake.exceptions import WorkflowError

from subtune import config as subtune_config
from subtune import grid
from subtune.errors import SubtuneError

try:
    CONFIG = subtune_config.check(config)
    PLAN = grid.plan(CONFIG)
except SubtuneError as problem:
    raise WorkflowError(f"The configuration cannot be used:\n{problem}") from None


def results(path):
    """A path inside the configured results directory."""
    return f"{CONFIG.results}/{path}"


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    fisher=r"[^/]+",
    ranking=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment="|".join(CONFIG.experiments),


# Tables that show methods task by task: a paper's exhibit to the printed scores beside ours.
COMPARISONS = {
    "layernorm": {"table2": ["table2"]},
    "bitfit": {name: [name] for name in ("table1", "table2", "table3")},
    "bitfit_plus": {
        "figure3": ["figure3", "figure3 (original paper, in parentheses)"],
        "figure7": ["figure3", "figure7 (averages quoted in the text)"],
    },
    "spafit": {"table2": ["table2"]},
}
OTHER_TABLES = {
    "layernorm": ["table1", "table4", "kruskal_wallis"],
    "bitfit": ["table6", "generalisation_gap"],
    "bitfit_plus": ["repeat_variance"],
    "spafit": ["table1"],
}
# Heat maps of what changed: figure to the method and, where the paper shows one, the task.
CHANGES = {
    "bitfit": {
        "figure1": {"methods": ["bitfit"], "tasks": ["rte"]},
        "figure3": {"methods": ["bitfit"], "tasks": ["cola"]},
        "figure4": {"methods": ["bitfit"], "tasks": ["mrpc"]},
        "figure5": {"methods": ["bitfit"], "tasks": ["stsb"]},
    },
    "bitfit_plus": {
        "figure4": {"methods": ["bitfit"], "tasks": ["rte"]},
        "figure5": {"methods": ["bitfit"], "tasks": ["mrpc"]},
        "figure6": {"methods": ["bitfit"], "tasks": ["cola"]},
    }
    | {
        f"figure{number}": {"methods": [method], "tasks": ["rte"]}
        for number, method in enumerate(
            [
                "g_LN1",
                "g_LN2",
                "g_LN1,g_LN2",
                "rand_bias",
                "bitfit without b_m2,b_q",
                "bitfit,g_LN1,g_LN2",
                "b_m2,b_q,g_LN1,g_LN2",
                "b_LN1,b_LN2",
            ],
            start=8,
        )
    },
}


def of_paper(*papers):
    """A wildcard constraint: the experiments that reproduce these papers."""
    names = [
        name
        for name, settings in CONFIG.experiments.items()
        if settings.paper in papers
    ]
    return "|".join(names) or "(?!)"


def paper_of(experiment):
    return CONFIG.experiments[experiment].paper


def changes_shown(experiment):
    """The heat maps of changes whose method and task the experiment has."""
    settings = CONFIG.experiments[experiment]
    return {
        figure: shown
        for figure, shown in CHANGES.get(settings.paper, {}).items()
        if set(shown["methods"]) <= set(settings.all_methods())
        and set(shown["tasks"]) <= set(settings.tasks)
    }


def compared_on_training_rows(sweep):
    """Runs of a sweep whose training score BitFit's generalisation gap looks at."""
    wanted = {
        planned.run.id: planned.run.canonical()
        for name, runs in PLAN.experiments.items()
        if paper_of(name) == "bitfit"
        for planned in runs
        if planned.method in ("full", "bitfit")
    }
    return [wanted[run] for run in PLAN.sweeps[sweep].runs if run in wanted]


def exhibits(experiment):
    """Every table and figure of an experiment."""
    settings = CONFIG.experiments[experiment]
    tables = [*COMPARISONS[settings.paper], *OTHER_TABLES[settings.paper]]
    tables += ["choices", "paired_tests"]
    figures = ["reproduction", *changes_shown(experiment)]
    if settings.paper == "layernorm":
        figures += ["figure3", "figure4"]
        if "full" in settings.methods:
            figures += ["figure1"]
        if settings.fractions:
            figures += ["figure2", "figure5"]
    paths = [path for name in tables for path in written(name)]
    paths += [path for name in figures for path in drawn(name)]
    paths += [results("{experiment}/reproduction.csv")]
    return [path.format(experiment=experiment) for path in paths]


def tasks_of(experiment):
    """The definitions of an experiment's tasks, in its order."""
    return [
        CONFIG.all_tasks()[task].model_dump(mode="json")
        for task in CONFIG.experiments[experiment].tasks
    ]


def first_run(sweep):
    """The runs of a sweep share model and tokens, so that any one of them tells."""
    return PLAN.runs[PLAN.sweeps[sweep].runs[0]]


def written(name):
    """A table in each format."""
    return [
        results(f"{{experiment}}/{name}.{ending}") for ending in ("csv", "md", "tex")
    ]


def drawn(name):
    """A figure in each format."""
    return [results(f"{{experiment}}/{name}.{ending}") for ending in ("png", "pdf")]


def titles_of(experiment):
    """Task name to its title, in the experiment's order."""
    return {task["name"]: task["title"] for task in tasks_of(experiment)}
