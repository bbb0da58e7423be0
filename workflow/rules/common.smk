# The configuration, checked, and the plan of every stage that follows from it.

from pathlib import Path

import pandas as pd
from snakemake.exceptions import WorkflowError
from snakemake.io import report as in_report

from subtune import config as subtune_config
from subtune import exhibits, sources
from subtune.analysis import server_scores
from subtune.submission.planned import form, submissions, submitted_tasks
from subtune.cost import Estimates
from subtune.plan import plan
from subtune.errors import SubtuneError

try:
    CONFIG = subtune_config.check(config)
    PLAN = plan(CONFIG)
    FORMS = {name: form(CONFIG, name) for name in CONFIG.experiments}
    if CONFIG.test_scores:
        server_scores.read(Path(CONFIG.test_scores), pd.concat(FORMS.values()))
except SubtuneError as problem:
    raise WorkflowError(f"The configuration cannot be used:\n{problem}") from None


# Environments and containers hold what subtune needs; itself it is here.
sources.offer(Path(workflow.basedir) / "src")
COMPUTES = f"../../envs/{CONFIG.environment}.yaml"

# What jobs ask a scheduler for; a laptop does not look at it.
ESTIMATES = Estimates(CONFIG, PLAN)


def results(path):
    """A path inside the configured results directory."""
    return f"{CONFIG.results}/{path}"


HUB_CACHE = CONFIG.hub_cache or results("hub")


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    fisher=r"[^/]+",
    ranking=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment="|".join(CONFIG.experiments),


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


# Runs whose training score BitFit's generalisation gap looks at.
COMPARED_ON_TRAINING_ROWS = {
    planned.run.id
    for name, runs in PLAN.experiments.items()
    if paper_of(name) == "bitfit"
    for planned in runs
    if planned.method in ("full", "bitfit")
}


def compared_on_training_rows(sweep):
    """A sweep's runs that are scored on their training rows."""
    return [run for run in PLAN.sweeps[sweep].runs if run in COMPARED_ON_TRAINING_ROWS]


def exhibits_of(experiment):
    """Every table and figure of an experiment."""
    shown = exhibits.titled(CONFIG, CONFIG.experiments[experiment])
    return [path for name in shown for path in files_of(experiment, name)]


def changes_in(experiment):
    """The heat maps of changes of an experiment: figure to method and task."""
    shown = exhibits.changes(CONFIG.experiments[experiment])
    return {figure: changes._asdict() for figure, changes in shown.items()}


def evidence_of(experiment):
    """What a paper's claims are asked of, as far as the experiment makes it."""
    return {
        name: results(f"{experiment}/data/{file}.csv")
        for name, file in exhibits.evidence(CONFIG.experiments[experiment]).items()
    }


def shows_test_scores(wildcards):
    """Whether a table is of scores that the GLUE server returned."""
    tables = exhibits.TEST_SCORES.get(paper_of(wildcards.experiment), {})
    return wildcards.exhibit in tables


def runs_on(wildcards):
    """One run of each method, with the wildcards' model on their task."""
    return PLAN.runs_on(
        wildcards.experiment, wildcards.encoder, wildcards.task
    ).values()


def any_run_on(wildcards):
    """They share model and tokens, so that any one of them tells."""
    return PLAN.runs[next(iter(runs_on(wildcards)))]


def predicted(experiment, model):
    """Task to the file with what a model's methods predict of its test rows."""
    tasks = submitted_tasks(CONFIG, CONFIG.experiments[experiment])
    return {
        task: results(f"{experiment}/data/test/{model}/{task}.parquet")
        for task in tasks
    }


def tasks_of(experiment):
    """The definitions of an experiment's tasks, in its order."""
    return [
        CONFIG.all_tasks()[task].model_dump(mode="json")
        for task in CONFIG.experiments[experiment].tasks
    ]


def first_run(sweep):
    """The runs of a sweep share model and tokens, so that any one of them tells."""
    return PLAN.runs[PLAN.sweeps[sweep].runs[0]]


TABLE_ENDINGS, FIGURE_ENDINGS = ["csv", "md", "tex"], ["png", "pdf"]


def written(name, caption):
    """A table in each format, of which the report shows one."""
    csv, *others = (
        results(f"{{experiment}}/{name}.{ending}") for ending in TABLE_ENDINGS
    )
    return [shown(csv, caption, "{experiment}"), *others]


def drawn(name, caption):
    """A figure in each format."""
    return shown(
        [results(f"{{experiment}}/{name}.{ending}") for ending in FIGURE_ENDINGS],
        caption,
        "{experiment}",
    )


def shown(files, caption, category):
    """Outputs that `snakemake --report` shows."""
    place = caption_file(caption)
    return in_report(files, caption=place, category=category)


def caption_file(caption):
    return str(Path(workflow.basedir) / "workflow" / "report" / f"{caption}.rst")


def files_of(experiment, name):
    """Every file of a table or figure."""
    settings = CONFIG.experiments[experiment]
    endings = TABLE_ENDINGS
    if name in exhibits.figures(settings):
        endings = FIGURE_ENDINGS + ["csv"] * (name == "reproduction")
    return [results(f"{experiment}/{name}.{ending}") for ending in endings]


def sections():
    """What the report shows: the experiments, with their exhibits in order."""
    return [
        {
            "name": name,
            "paper": exhibits.PAPERS[settings.paper],
            "exhibits": [
                {
                    "name": exhibit,
                    "title": title,
                    "caption": caption_file(exhibits.caption(settings.paper, exhibit)),
                    "files": files_of(name, exhibit),
                }
                for exhibit, title in exhibits.titled(CONFIG, settings).items()
            ],
            "scores": results(f"{name}/data/scores.csv"),
            "curves": results(f"{name}/data/learning_curves.csv"),
        }
        for name, settings in CONFIG.experiments.items()
    ]


def files_in_report():
    """Every file that the report shows or reads."""
    files = []
    for section in sections():
        files += [section["scores"], section["curves"]]
        for exhibit in section["exhibits"]:
            files += [exhibit["caption"], *exhibit["files"]]
    return list(dict.fromkeys(files))


def titles_of(experiment):
    """Task name to its title, in the experiment's order."""
    return {task["name"]: task["title"] for task in tasks_of(experiment)}
