# The checked configuration, and its plan of every stage.

import atexit
import logging
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from itertools import chain
from pathlib import Path

from snakemake.cli import get_argument_parser, get_profile_dir
from snakemake.exceptions import WorkflowError
from snakemake.io import report as in_report
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from subtune import config as subtune_config
from subtune.config import require_unique_keys
from subtune.core import layout
from subtune.planning.cost import Estimates
from subtune.core.errors import SubtuneError
from subtune.core.jobs import skip_final_garbage_collection
from subtune.core.layout import offer
from subtune.exhibits.answers import answers_in_lines
from subtune.exhibits.findings import papers_in_lines
from subtune.interface import workflow as calls
from subtune.papers import experiments
from subtune.papers.paper import Figure
from subtune.papers.shared import ANSWERS, FRONT, SUBMISSION, SUMMARIES, SUMMARY
from subtune.planning.jobs import submissions
from subtune.runs.records import runs_of_sweep


def files_with_configuration():
    """Return the configuration files and profiles of this call; Snakemake accepts repeated keys in them."""
    profiles = get_argument_parser().parse_known_args()[0].profile or []
    places = [get_profile_dir(profile) for profile in profiles if profile != "none"]
    return [*workflow.configfiles, *(path for _, path in filter(None, places))]


# The directory of the clone or package; in a module, `workflow.basedir` is the including workflow's.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if re.search("[{}]", str(HERE)):
    raise WorkflowError(
        f"{HERE}: found a folder with braces in its name, which Snakemake takes for wildcards; "
        "move this workflow to another folder"
    )
# Snakemake puts this path into shell commands as it is, and its directory in quotation marks. If
# this file is included again, the path is already escaped.
sys.executable = re.sub(r"(?<!\\)([^\w@%+=:,./\\-])", r"\\\1", sys.executable)
# Without this variable, Snakemake's solver writes to /tmp even if that is full.
os.environ.setdefault("TMPDIR", tempfile.gettempdir())

try:
    for path in files_with_configuration():
        require_unique_keys(Path(path))
    CONFIG, PLAN, FORMS = calls.preflight(subtune_config.check(config))
    # Jobs read this file again.
    if workflow.is_main_process:
        for line in calls.try_tokenizers(PLAN):
            print(line, file=sys.stderr)
except SubtuneError as problem:
    raise WorkflowError(f"The configuration cannot be used:\n{problem}") from None


skip_final_garbage_collection()
# Environments and containers have subtune's requirements; subtune's own code is in this directory.
offer(HERE / "src")
# The number of times that a failed download is tried again.
DOWNLOAD_RETRIES = 2
CPU, COMPUTES = "../../envs/cpu.yaml", f"../../envs/{CONFIG.environment}.yaml"
CAPTIONS = str(HERE / "workflow" / "report" / "experiment.rst")

# The resources that jobs ask a scheduler for; on a laptop they are ignored.
ESTIMATES = Estimates(CONFIG, PLAN)
PATHS = layout.Layout(CONFIG.results)

EXHIBITS = {
    name: experiments.exhibits_of(CONFIG, experiment)
    for name, experiment in CONFIG.experiments.items()
}


def any_of(names):
    """Return a wildcard constraint that allows only these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    fisher=r"[^/]+",
    ranking=r"[0-9a-f]{12}",
    search=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment=any_of(CONFIG.experiments),


def require_no_rule(experiment):
    """Refuse an experiment with the name of a rule: both would be the same target."""
    if workflow.is_rule(experiment):
        raise WorkflowError(
            f"experiments.{experiment}: found the name of a rule of the workflow, expected another"
        )


def own_files(wildcards):
    """Return the files of a user's own task, by split."""
    rows = PLAN.datasets[wildcards.dataset]
    own = CONFIG.tasks.get(rows.task.name)
    return {split: own.files[split] for split in rows.splits} if own else {}


# Runs that papers also score on their training rows.
SCORED_ON_TRAINING_ROWS = {
    run
    for name in CONFIG.experiments
    for run in experiments.scored_on_training_rows(CONFIG, PLAN, name)
}


def scored_on_training_rows(sweep):
    """Return a sweep's runs that are scored on their training rows."""
    return [run for run in PLAN.sweeps[sweep].runs if run in SCORED_ON_TRAINING_ROWS]


def repairs(sweep):
    """Return the repair files of a finished sweep's runs."""
    # Without any, no table of a sweep is read.
    made, table = {*Path(PATHS.repair("")).glob("*")}, Path(PATHS.sweep(sweep))
    if not made or not table.is_file():
        return []
    files = map(PATHS.repair, runs_of_sweep(table).values())
    return [file for file in files if Path(file) in made]


def sweep_to_refit(wildcards):
    """Return a sweep with runs of the method, for its model and tokens."""
    w = wildcards
    of_method = {"model": w.encoder, "task": w.task, "method": w.method}
    return PLAN.sweeps_of(w.experiment, **of_method)[0]


def runs_tested(wildcards):
    """Return, for each task with test rows, a run of each method with the wildcards' model."""
    tasks = CONFIG.experiments[wildcards.experiment].tasks
    return {
        task: [*PLAN.runs_on(wildcards.experiment, wildcards.encoder, task).values()]
        for task in filter(CONFIG.is_submitted, tasks)
    }


def first_tested(wildcards):
    """Return one run of each task; any will do, because all methods share model and tokens."""
    return [run for run, *_ in runs_tested(wildcards).values()]


def shown(experiment, exhibit):
    """Return the files of a table or figure; `snakemake --report` shows figures and CSV files."""
    is_figure = isinstance(exhibit, Figure)
    files = []
    for ending in layout.FIGURE_ENDINGS if is_figure else layout.TABLE_ENDINGS:
        path = PATHS.exhibit(experiment, exhibit.name, ending)
        labels = {"title": exhibit.title, "file": ending}
        page = in_report(path, CAPTIONS, category=experiment, labels=labels)
        files.append(page if is_figure or ending == "csv" else path)
    return files


def shown_first(exhibit):
    """Return a table's or figure's files for all experiments; the report shows the first."""
    first, *others = files_of_all_experiments(exhibit)
    labels = {"title": exhibit.title, "file": Path(first).suffix[1:]}
    return [in_report(first, category="All experiments", labels=labels), *others]


def files_of(experiment, exhibit):
    """Return all files of a table or figure."""
    return [PATHS.exhibit(experiment, exhibit.name, e) for e in endings_of(exhibit)]


def endings_of(exhibit):
    if not isinstance(exhibit, Figure):
        return layout.TABLE_ENDINGS
    # `reproduction` also has a CSV file with the printed scores.
    return [*layout.FIGURE_ENDINGS, *["csv"] * (exhibit.name == "reproduction")]


def files_of_all_experiments(exhibit):
    """Return all files of a table or figure for all experiments."""
    return [PATHS.summary(exhibit.name, e) for e in endings_of(exhibit)]


def files_of_experiment(experiment):
    """Return the files of every table and figure of an experiment."""
    exhibits = EXHIBITS[experiment].values()
    return [path for exhibit in exhibits for path in files_of(experiment, exhibit)]


def in_page(exhibit, files):
    """Return a table's or figure's arguments for the report."""
    shown = {name: getattr(exhibit, name) for name in ("name", "title", "caption")}
    return shown | {"files": files}


def print_answers(written):
    """Print the claims of papers and the answers, of all experiments or of one, if they exist."""
    papers = {}
    for name, experiment in CONFIG.experiments.items():
        claims = PATHS.data(name, "claims")
        if claims in written and exists(claims):
            citation = experiments.paper_of(experiment).citation
            papers.setdefault(citation, []).append(Path(claims))
    if papers:
        print(f"\n{papers_in_lines(papers)}", file=sys.stderr)
    shared = PATHS.summary("answers", "csv")
    single = [PATHS.exhibit(name, "answers", "csv") for name in EXHIBITS]
    for path in [shared] if shared in written else [p for p in single if p in written]:
        print(answers_in_lines(Path(path)), file=sys.stderr)


class FailureHandler(logging.Handler):
    """Keeps the logs of failed jobs and what executors say; ends the attempts of refused jobs."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.kept, self.errors = {}, {}

    def emit(self, record):
        event = getattr(record, "event", None)
        if found := re.search(r"Job (\d+) .*files are missing", record.getMessage()):
            self.kept[int(found[1])] = [], record.getMessage()
        elif event == LogEvent.ERROR:
            # The same thread then reports the local job that failed with this error.
            self.errors[record.thread] = record.getMessage()
        elif event == LogEvent.JOB_ERROR:
            said = record.rule_msg or self.errors.pop(record.thread, "")
            self.kept[record.jobid] = record.log, said
            if calls.is_refused(said):
                jobs = workflow.persistence.dag.jobs
                job = next(job for job in jobs if job.jobid == record.jobid)
                job.attempt = job.restart_times + 1


FAILURES = FailureHandler()
# Snakemake ignores the `onerror` of a module.
if workflow.modifier.is_main_snakefile():
    logger.addHandler(FAILURES)


def print_failures():
    """Print why jobs failed, after everything that Snakemake prints."""
    failures = []
    for failed in workflow.scheduler.failed:
        for job in failed.jobs if failed.is_group() else [failed]:
            name = " ".join([job.rule.name, *job.wildcards])
            logs, said = FAILURES.kept.get(job.jobid, ([], ""))
            failures.append(calls.Failure(name, logs or job.log, said))
    if failures:
        atexit.register(print, calls.failures_in_lines(failures), file=sys.stderr)


def start_saying_progress():
    """Print the call's progress, unless it has a terminal without Slurm or must be quiet."""
    dag, scheduler = workflow.persistence.dag, workflow.scheduler
    # The name of all jobs of this call, if they run in Slurm.
    name = getattr(scheduler._executor, "run_uuid", None)
    if (sys.stderr.isatty() and not name) or not scheduler.print_progress:
        return
    limits = map(scheduler.global_resources.get, ("_cores", "_nodes", "gpu"))
    at_once = min(filter(None, limits))

    def look():
        counts = scheduler.finished_jobs, len(dag), len(scheduler.failed)
        return calls.Jobs(*counts, calls.waiting_in_slurm(name) if name else "")

    # A run whose rate a search finds has no known record, so its sweep's table shows that it is done.
    planned = Counter()
    for job in dag.jobs:
        if job.rule.name == "search":
            search = job.wildcards.search
            planned[PATHS.search(search)] = ESTIMATES.search(search).seconds
        elif job.rule.name == "train":
            runs = PLAN.sweeps[job.wildcards.sweep].runs
            for run in runs:
                record = f"{PATHS.records()}/{run}"
                is_searched = PLAN.runs[run].search is not None
                file = PATHS.sweep(job.wildcards.sweep) if is_searched else record
                start = ESTIMATES.start.seconds / len(runs)
                planned[file] += ESTIMATES.run(run).seconds + start
    arguments = planned, Path(), at_once, look, logger.info
    threading.Thread(target=calls.say_progress, args=arguments, daemon=True).start()
