# The plan of the configuration. The process that users start makes it once; jobs read it.

import fcntl
import os
import re
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import yaml
from snakemake.cli import get_argument_parser, get_profile_dir
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# The directory of the clone or package. If another workflow includes this one, `workflow.basedir` is the
# other workflow's.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if re.search("[{}]", str(HERE)):
    raise WorkflowError(
        f"{HERE}: found a folder with braces in its name, which Snakemake takes for wildcards; "
        "move this workflow to another folder"
    )
# Snakemake's environment may have nothing but Snakemake: planning needs no other package.
if find_spec("subtune") is None:
    sys.path.append(str(HERE / "src"))
from subtune.core.absent_packages import absent_packages

with absent_packages():
    from subtune.config import parse_yaml
    from subtune.core.errors import SubtuneError
    from subtune.core.files import Layout
    from subtune.core.process import ensure_user_name
    from subtune.steps.jobs import offer_plan, read_plan, write_plan
    from subtune.steps.snakemake_calls import CallEvents, offer_library

# Snakemake puts this path into shell commands as it is, and its directory in quotation marks. If
# this file is included again, the path is already escaped.
sys.executable = re.sub(r"(?<!\\)([^\w@%+=:,./\\-])", r"\\\1", sys.executable)
# Without this variable, Snakemake's solver writes to /tmp even if that is full.
os.environ.setdefault("TMPDIR", tempfile.gettempdir())
ensure_user_name()


def plan_configuration():
    """Return the plan. Refuse repeated keys in files of YAML, which Snakemake accepts."""
    profiles = get_argument_parser().parse_known_args()[0].profile or []
    places = [get_profile_dir(profile) for profile in profiles if profile != "none"]
    try:
        for path in [
            *workflow.configfiles,
            *(path for _, path in filter(None, places)),
        ]:
            with suppress(yaml.YAMLError):
                parse_yaml(Path(path))
        plan = write_plan(config)
        offer_plan(config)
    except SubtuneError as problem:
        raise WorkflowError(f"The configuration cannot be used:\n{problem}") from None
    for line in plan.notes:
        print(line, file=sys.stderr)
    return plan


with absent_packages():
    PLAN = plan_configuration() if workflow.is_main_process else read_plan(config)
SETTINGS, PATHS = PLAN.settings, Layout(PLAN.settings["results"])
# Each experiment has a job that makes its exhibits.
EXPERIMENTS = [*PLAN.jobs["exhibits"]]
# The priority of Fisher information and of its inputs: one mask may need the information of every task.
BEFORE_TRAINING = 1

# Environments and containers have subtune's requirements; subtune's own code is in this directory.
offer_library(HERE / "src")
CPU, COMPUTES = "../../envs/cpu.yaml", f"../../envs/{SETTINGS['environment']}.yaml"


wildcard_constraints:
    dataset=r"[^/]+",
    tokens=r"[^/]+",
    model=r"[0-9a-f]{12}",
    model_name=r"[^/]+",
    fisher=r"[^/]+",
    ranking=r"[0-9a-f]{12}",
    searches=r"[0-9a-f]{12}",
    sweep=r"[^/]+",
    experiment="|".join(map(re.escape, EXPERIMENTS)),


def lookup_job(name, value):
    """Return a function with which Snakemake looks up a value of a job.

    Args:
        name: the job's step and id, which may have wildcards.
        value: a function of the job and of the number of the attempt.
    """
    return lambda w, attempt=1: value(PLAN.job(name.format(**dict(w.items()))), attempt)


def needs(name, input_name):
    """Return the function that looks up one of a job's inputs by its name.

    Snakemake finds the rule that makes an input by its path.
    """
    return lookup_job(name, lambda job, attempt: job.inputs[input_name])


def needs_made(name, input_name):
    """Return the function of `needs`, for a job whose id is a hash of all that decides its outputs.

    If an input has a new time, as after a copy of the results, Snakemake does not do the job again.
    """
    return ancient(needs(name, input_name))


def spec_hash(name):
    """Return the function that looks up the hash of a job's spec.

    Snakemake does a job again if one of its params changes. If a job's id is a hash, another spec
    has other outputs, so only jobs whose id is a name need this param.
    """
    return lookup_job(name, lambda job, attempt: job.spec_hash)


def memory(name):
    """Return the function that looks up the megabytes that a job asks for.

    The second attempt asks for half as much again, later attempts for twice as much as the first.
    """
    return lookup_job(
        name,
        lambda job, attempt: int(job.resources["mem_mb"] * min((1 + attempt) / 2, 2)),
    )


def minutes(name):
    """Return the function that looks up the minutes that a job asks for.

    Each attempt asks for twice as many as the one before, up to the longest job that the cluster
    allows. A sweep that needs more time continues from its checkpoint.
    """
    most = 60 * SETTINGS["longest_job_hours"]
    return lookup_job(
        name,
        lambda job, attempt: min(job.resources["minutes"] * 2 ** (attempt - 1), most),
    )


def retries(step):
    """Return how often a failed job is tried again; only a download can fail by chance."""
    jobs = PLAN.jobs[step].values()
    return 2 if any(job.spec["source"] == "hub" for job in jobs) else 0


def require_no_rule(experiment):
    """Refuse an experiment with the name of a rule, because both would be the same target."""
    if workflow.is_rule(experiment):
        raise WorkflowError(
            f"experiments.{experiment}: found the name of a rule of the workflow, expected another"
        )


def keep_comparisons_away():
    """Hold the lock of `compare` together with other calls of Snakemake, until this one ends."""
    global LOCKED
    if exists(PATHS.lock()):
        LOCKED = open(PATHS.lock())
        try:
            fcntl.flock(LOCKED, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkflowError(
                f"results: `subtune compare` is running in {PATHS.results}; call again later"
            ) from None


EVENTS = CallEvents()
# Snakemake ignores the `onsuccess` and `onerror` of a module.
if workflow.modifier.is_main_snakefile():
    logger.addHandler(EVENTS)
