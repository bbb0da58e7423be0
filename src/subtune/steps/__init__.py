"""The steps of the workflow, in one module each.

A *step* is a kind of job, and a *job* is one call of a step: a job of `train` trains one sweep. In
each module, ``jobs`` yields the jobs of the step from a plan, and ``run`` runs one job. The rule of
Snakemake has the same name as the step.

* The process that a user starts plans the configuration and writes the plan file. If nothing has
  changed, this process reads the existing plan file (`subtune.steps.plan_file`).
* The process of each job reads the job from the plan file, and writes the outputs of the job.
* Snakemake or `compare` decides which jobs have to run.
"""
