"""Run one job of the plan, for a rule of the workflow."""

from subtune.core.process import end_process, redirect_job_output, set_hub_cache
from subtune.steps.jobs import read_plan, run_job

with redirect_job_output(snakemake.log[0]):
    job = read_plan(snakemake.config["plan_file"]).job(snakemake.params.job)
    set_hub_cache(job.resources.get("hub_cache"))
    run_job(job, snakemake.threads)
end_process(0)
