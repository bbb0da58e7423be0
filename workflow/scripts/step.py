"""Do one job of the plan. In: the plan's file, and the job's inputs. Out: its outputs."""

from subtune.core.jobs import job_log
from subtune.steps import plan_file
from subtune.steps.job import run_job

job = plan_file.read_plan(snakemake.config).job(snakemake.params.job)
with job_log(snakemake.log[0], job.resources.get("hub_cache")):
    run_job(job, snakemake.threads)
