"""Run one job of the plan, for a rule of the workflow."""

import sys
from pathlib import Path

# Environments and containers contain the packages that subtune needs, but not subtune itself.
sys.path.insert(0, str(Path(snakemake.scriptdir).parents[1] / "src"))

try:
    from subtune.core.files import keep_comparisons_away, remove_old_drafts
    from subtune.core.process import end_process, redirect_job_output, set_hub_cache
    from subtune.steps.jobs import run_job
    from subtune.steps.plan_file import read_plan
except ImportError as error:
    # Snakemake keeps a copy of this script, which an update of subtune does not change.
    line = f"subtune was updated during the call ({error}); run the command again\n"
    Path(snakemake.log[0]).write_text(line, encoding="utf-8")
    raise

with redirect_job_output(snakemake.log[0]):
    plan = read_plan(snakemake.config["plan_file"])
    job = plan.job(snakemake.params.job)
    set_hub_cache(job.resources.get("hub_cache"))
    keep_comparisons_away(plan.settings["results"])
    remove_old_drafts(Path(plan.settings["results"]))
    run_job(job, snakemake.threads)
end_process(0)
