"""Do one stage of the plan. In: the plan's file, and the stage's inputs. Out: its outputs."""

from subtune.core.jobs import job
from subtune.stages import plan_file
from subtune.stages.run import run_stage

stage = plan_file.read(snakemake.config).stage(snakemake.params.stage)
with job(snakemake.log[0], stage.resources.get("hub_cache")):
    run_stage(stage, snakemake.threads)
