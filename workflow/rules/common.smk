# The configuration, checked, and the plan of every stage that follows from it.

import re
import sys
import threading
from pathlib import Path

from snakemake.cli import get_argument_parser, get_profile_dir
from snakemake.exceptions import WorkflowError
from snakemake.io import report as in_report
from snakemake.logging import logger

from subtune import config as subtune_config
from subtune.config import require_unique_keys
from subtune.core import layout
from subtune.planning.cost import Estimates
from subtune.core.errors import SubtuneError
from subtune.core.workflow_files import offer
from subtune.exhibits.tables.answers import answers_in_lines
from subtune.interface.preflight import preflight, require_no_braces
from subtune.interface.progress import Jobs, say_progress
from subtune.papers import experiments, printed
from subtune.papers.paper import task_titles
from subtune.papers.paper import Figure, Table
from subtune.papers.shared import ANSWERS, FRONT, SUMMARIES, SUMMARY
from subtune.planning.submissions import submissions, submitted_tasks


def files_with_configuration():
    """The files that Snakemake has read, where the last of two equal keys wins."""
    profiles = get_argument_parser().parse_known_args()[0].profile or []
    places = [get_profile_dir(profile) for profile in profiles if profile != "none"]
    return [*workflow.configfiles, *(path for _, path in filter(None, places))]


# The clone, or the package: in a module `workflow.basedir` is the including workflow's.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]

try:
    require_no_braces(str(HERE))
    for path in files_with_configuration():
        require_unique_keys(Path(path))
    CONFIG, PLAN, FORMS = preflight(subtune_config.check(config))
except SubtuneError as problem:
    raise WorkflowError(f"The configuration cannot be used:\n{problem}") from None


# Environments and containers hold what subtune needs; itself it is here.
offer(HERE / "src")
# A download that fails is tried so many times again.
DOWNLOAD_RETRIES = 2
CPU, COMPUTES = "../../envs/cpu.yaml", f"../../envs/{CONFIG.environment}.yaml"
CAPTION = str(HERE / "workflow" / "report" / "exhibit.rst")

# What jobs ask a scheduler for; a laptop does not look at it.
ESTIMATES = Estimates(CONFIG, PLAN)
PATHS = layout.Layout(CONFIG.results)

EXHIBITS = {
    name: experiments.exhibits_of(CONFIG, experiment)
    for name, experiment in CONFIG.experiments.items()
}


def any_of(names):
    """A wildcard constraint: one of these names, and nothing else."""
    return "|".join(map(re.escape, names)) or "(?!)"


def with_its(kind):
    """A wildcard constraint: an experiment before the name of a table, or figure, that it has."""
    return "|".join(
        f"{re.escape(experiment)}(?=/({any_of(names_of(experiment, kind))})[.])"
        for experiment in EXHIBITS
    )


def names_of(experiment, kind):
    """Return the names of an experiment's tables, or of its figures."""
    exhibits = EXHIBITS[experiment].values()
    return [e.name for e in exhibits if isinstance(e, Figure) is (kind is Figure)]


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    fisher=r"[^/]+",
    ranking=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment=any_of(CONFIG.experiments),


def require_no_rule(experiment):
    """Refuse an experiment with the name of a rule: both would be the same target."""
    if workflow.is_rule(experiment):
        raise WorkflowError(
            f"experiments.{experiment}: found the name of a rule of the workflow, expected another"
        )


def settings(wildcards):
    """The settings of the wildcards' experiment."""
    return CONFIG.experiments[wildcards.experiment]


def paper(wildcards):
    return settings(wildcards).paper or ""


def printed_version(wildcards):
    """A hash of what the experiment's paper prints."""
    return printed.version(paper(wildcards))


def columns(wildcards):
    """Return where the experiment's columns of scores are read from."""
    return experiments.score_columns(CONFIG, settings(wildcards))


def runs_on(wildcards):
    """One run of each method, with the wildcards' model on their task."""
    return PLAN.runs_on(
        wildcards.experiment, wildcards.encoder, wildcards.task
    ).values()


def any_run_on(wildcards):
    """They share model and tokens, so that any one of them tells."""
    return PLAN.runs[next(iter(runs_on(wildcards)))]


# Runs that papers score on their training rows too.
SCORED_ON_TRAINING_ROWS = {
    run
    for name in CONFIG.experiments
    for run in experiments.scored_on_training_rows(CONFIG, PLAN, name)
}


def scored_on_training_rows(sweep):
    """A sweep's runs that are scored on their training rows."""
    return [run for run in PLAN.sweeps[sweep].runs if run in SCORED_ON_TRAINING_ROWS]


def predicted(experiment, model):
    """Task to the file with what a model's methods predict of its test rows."""
    return {
        task: PATHS.test_predictions(experiment, model, task)
        for task in submitted_tasks(CONFIG, CONFIG.experiments[experiment])
    }


def data_of(experiment, name):
    """The file, or the directories, behind a name that exhibits and claims read."""
    if name == "models":
        models = CONFIG.experiments[experiment].models
        return [PATHS.model(PLAN.model_ids[model]) for model in models]
    return PATHS.data(experiment, name)


def exhibit(wildcards):
    """Return the wildcards' table or figure."""
    return EXHIBITS[wildcards.experiment][wildcards.exhibit]


def data_files(wildcards):
    """Return the arguments of an exhibit's function that are data, to their files."""
    read = experiments.data_read(CONFIG, settings(wildcards), exhibit(wildcards))
    return {a: data_of(wildcards.experiment, name) for a, name in read.items()}


def declaration(wildcards):
    """Return what decides how an exhibit looks, as plain values."""
    return experiments.declaration(CONFIG, settings(wildcards), exhibit(wildcards))


def shown(ending):
    """Return a file of the wildcards' exhibit that `snakemake --report` shows."""
    path = PATHS.exhibit("{experiment}", "{exhibit}", ending)
    labels = lambda wildcards: {"title": exhibit(wildcards).title, "file": ending}
    return in_report(path, caption=CAPTION, category="{experiment}", labels=labels)


def shown_first(exhibit):
    """Return the files of all experiments' runs, of which the report shows the first."""
    first, *others = files_of_all_experiments(exhibit)
    labels = {"title": exhibit.title, "file": Path(first).suffix[1:]}
    return [in_report(first, category="All experiments", labels=labels), *others]


def files_of(experiment, exhibit):
    """Return every file of a table or figure that a reader may want."""
    return [PATHS.exhibit(experiment, exhibit.name, e) for e in endings_of(exhibit)]


def endings_of(exhibit):
    if not isinstance(exhibit, Figure):
        return layout.TABLE_ENDINGS
    return [*layout.FIGURE_ENDINGS, *(["csv"] if exhibit.numbers else [])]


def files_of_all_experiments(exhibit):
    """Every file of a table or figure of all experiments' runs."""
    return [PATHS.of_all_experiments(exhibit.name, e) for e in endings_of(exhibit)]


def files_of_experiment(experiment):
    """Return the files of every table and figure of an experiment."""
    exhibits = EXHIBITS[experiment].values()
    return [path for exhibit in exhibits for path in files_of(experiment, exhibit)]


def print_answers(made):
    """Print the answers among these files: those of all experiments, or of the one asked for."""
    of_all = PATHS.of_all_experiments("answers", "csv")
    of_each = [PATHS.exhibit(name, "answers", "csv") for name in EXHIBITS]
    for path in [of_all] if of_all in made else [p for p in of_each if p in made]:
        print(answers_in_lines(Path(path)), file=sys.stderr)


def start_saying_progress():
    """Say how far the call is while it runs, unless a bar shows it or it is to be quiet."""
    dag, scheduler = workflow.persistence.dag, workflow.scheduler
    if sys.stderr.isatty() or not scheduler.print_progress:
        return
    limits = map(scheduler.global_resources.get, ("_cores", "_nodes", "gpu"))
    at_once = min(filter(None, limits))

    def look():
        parts = [p if p.is_group() else [p] for p in scheduler.running.copy()]
        trained = trained_by(job for part in parts for job in part)
        return Jobs(scheduler.finished_jobs, len(dag), len(scheduler.failed), trained)

    known = PLAN, ESTIMATES, trained_by(dag.jobs), Path(PATHS.records()), at_once
    arguments = *known, look, logger.info
    threading.Thread(target=say_progress, args=arguments, daemon=True).start()


def trained_by(jobs):
    """Return the sweeps that these jobs train."""
    return {job.wildcards.sweep for job in jobs if job.rule.name == "train"}
