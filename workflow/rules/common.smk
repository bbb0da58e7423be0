# The process that a user starts plans the configuration. The processes of jobs read the plan of this call.

import os
import re
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import yaml
from snakemake.cli import get_argument_parser, get_profile_dir
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# The directory of the repository or package. If another workflow includes this one, `workflow.basedir` is
# the directory of that workflow.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if re.search("[{}]", str(HERE)):
    raise WorkflowError(
        f"{HERE}: Snakemake reads braces in the name of a folder as wildcards; "
        "move this workflow to another folder"
    )
# Planning needs no package except Snakemake, so subtune does not have to be installed.
if find_spec("subtune") is None:
    sys.path.append(str(HERE / "src"))
from subtune.core.absent_packages import absent_packages

with absent_packages():
    from subtune.config import parse_yaml
    from subtune.core.errors import SubtuneError
    from subtune.core.files import Layout, keep_comparisons_away
    from subtune.core.process import ensure_user_name
    from subtune.steps.jobs import list_files
    from subtune.steps.plan_file import PASSED, pass_plan, read_passed_plan, write_plan
    from subtune.steps.scores import SCORE_TABLES
    from subtune.steps.snakemake_calls import CallEvents

EXECUTABLE = re.sub(r"([^\w@%+=:,./-])", r"\\\1", sys.executable)
if workflow.modifier.is_main_snakefile():
    # Snakemake inserts this path into shell commands without quotes.
    sys.executable = EXECUTABLE
    # Without this variable, Snakemake's solver writes to /tmp even if that is full.
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    # Python modules in the working directory of jobs are ignored.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    ensure_user_name()
elif EXECUTABLE != sys.executable:
    raise WorkflowError(
        f"{sys.executable}: as part of another workflow, subtune needs a Python interpreter whose "
        "path has no spaces and no shell syntax; create the environment in another folder"
    )


@contextmanager
def show_errors(what=""):
    """Let Snakemake show an error for users without a traceback, after the line ``what``."""
    try:
        yield
    except SubtuneError as problem:
        raise WorkflowError(f"{what}{problem}") from None


def plan_configuration():
    """Return the plan, and refuse repeated keys in YAML files, which Snakemake itself accepts."""
    profiles = get_argument_parser().parse_known_args()[0].profile or []
    places = [get_profile_dir(profile) for profile in profiles if profile != "none"]
    for path in [*workflow.configfiles, *(path for _, path in filter(None, places))]:
        # After `workdir:`, a relative path is not found.
        with suppress(yaml.YAMLError, FileNotFoundError):
            parse_yaml(Path(path))
    plan = write_plan(config)
    for line in plan.notes:
        print(line, file=sys.stderr)
    return plan


# The names of the modules, if other workflows include this one.
MODULE = ":".join(modifier.namespace or "" for modifier in workflow.modifier_stack)
if workflow.is_main_process:
    with absent_packages(), show_errors("The configuration cannot be used:\n"):
        PLAN = plan_configuration()
else:
    with show_errors():
        PLAN = read_passed_plan(MODULE)
pass_plan(PLAN, MODULE)
# Scripts read the path of the plan file from their copy of `config`.
config = {**config, "plan_file": PLAN.path}


envvars:
    PASSED,


SETTINGS, PATHS = PLAN.settings, Layout(PLAN.settings["results"])
MOVED = workflow.modifier.path_modifier.replace_prefix(PATHS.report())
if MOVED != PATHS.report():
    raise WorkflowError(
        f"module: `prefix` and `replace_prefix` do not move subtune's results; remove them, and set "
        f"`results: {Path(MOVED).parent}` in the configuration of the module"
    )
# There is one job of the step `exhibits` for each experiment.
EXPERIMENTS = [*PLAN.jobs["exhibits"]]
# The priority of short jobs. They run before training: a mask may need the Fisher information of all tasks, and
# the tables of an experiment need not wait for the runs of another one.
SHORT = 1

CPU, COMPUTES = "../../envs/cpu.yaml", f"../../envs/{SETTINGS['environment']}.yaml"


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    model_name=r"[^/]+",
    fisher=r"[^/]+",
    mask=r"[0-9a-f]{12}",
    searches=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment="|".join(map(re.escape, EXPERIMENTS)),


def lookup_job(name, value):
    """Return a function that Snakemake calls to look up a value of a job.

    Args:
        name: ``STEP/ID`` of the job. It may contain wildcards.
        value: a function of the job and the number of the attempt.
    """
    return lambda w, attempt=1: value(PLAN.job(name.format(**dict(w.items()))), attempt)


def needs(name):
    """Return a function that looks up the inputs of a job. Snakemake finds the rules that make them."""
    return lookup_job(name, lambda job, attempt: list_files(job.inputs))


def needs_made(name):
    """Return the function of `needs`, marked as `ancient`.

    Snakemake does not run a job again if only the modification time of an `ancient` input changes, as
    when results are copied. The id of such a job must be a hash of everything that affects its outputs.
    """
    return ancient(needs(name))


def spec_hash(name):
    """Return a function that looks up the hash of a job's spec.

    Snakemake runs a job again if one of its params changes. Only jobs whose id is a name need the
    hash as a param. If the id is a hash, another spec leads to other output files.
    """
    return lookup_job(name, lambda job, attempt: job.spec_hash)


def memory(name):
    """Return a function that looks up the memory of a job in MB.

    The second attempt requests 1.5 times as much as the first, and each later attempt twice as much
    as the first.
    """
    return lookup_job(
        name,
        lambda job, attempt: int(job.resources["mem_mb"] * min((1 + attempt) / 2, 2)),
    )


def minutes(name):
    """Return a function that looks up the run time of a job in minutes.

    Each attempt requests twice as much as the previous one, up to the limit of the cluster. A sweep
    that runs out of time continues from its checkpoint in the next attempt.
    """
    most = 60 * SETTINGS["longest_job_hours"]
    return lookup_job(
        name,
        lambda job, attempt: min(job.resources["minutes"] * 2 ** (attempt - 1), most),
    )


def longest_first(name):
    """Return a function that looks up the priority of a training job, between 0 and `SHORT`.

    Long jobs start first, so that none of them is left at the end, when other cores or GPUs are idle.
    """
    return lookup_job(name, lambda job, attempt: 1 - 1 / (1 + job.resources["seconds"]))


def gpus(name):
    """Return a function that looks up the number of GPUs of a job: none if it only reads texts."""
    return lookup_job(name, lambda job, attempt: job.resources["gpu"])


def retries(step):
    """Return how often a failed job is repeated. Only downloads, which may fail at random, are repeated."""
    jobs = PLAN.jobs[step].values()
    return 2 if any(job.spec["source"] == "hub" for job in jobs) else 0


def require_no_rule(experiment):
    """Raise an error if an experiment is named after a rule, because the target would be ambiguous."""
    if workflow.is_rule(workflow.modifier.modify_rulename(experiment)):
        raise WorkflowError(
            f"experiments.{experiment}: this is the name of a rule of the workflow; rename the experiment"
        )


EVENTS = CallEvents()
# If another workflow uses this one as a module, Snakemake ignores `onsuccess` and `onerror`.
if workflow.modifier.is_main_snakefile():
    logger.addHandler(EVENTS)
