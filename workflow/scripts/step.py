"""Run one job of the plan, for a rule of the workflow."""

from subtune.core.process import end_process, redirect_job_output
from subtune.steps.jobs import read_plan, run_job

job = read_plan(snakemake.config).job(snakemake.params.job)
with redirect_job_output(snakemake.log[0], job.resources.get("hub_cache")):
    run_job(job, snakemake.threads)
end_process(0)
