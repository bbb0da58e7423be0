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


def exhibits(experiment):
    """Every table and figure of an experiment."""
    tables = ["table2", "table2_choices", "table4", "kruskal_wallis", "table1"]
    figures = ["figure1", "figure3", "figure4"]
    settings = CONFIG.experiments[experiment]
    if "full" not in settings.methods:
        figures.remove("figure1")
    if settings.fractions:
        figures += ["figure2", "figure5"]
    paths = [path for name in tables for path in written(name)]
    paths += [path for name in figures for path in drawn(name)]
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
