"""The steps of the workflow, in one module each.

A *step* is a kind of job, such as `train`. Each module, such as ``subtune.steps.train``, defines
two functions: ``jobs`` yields the jobs of the step from a plan, and ``run`` runs one job. The
Snakemake rule of a step is named like the step. A *job* is one call of a step. For example, a job
of `train` trains the runs of one sweep. (A *training step* is something else: one update of a
model's parameters.)

Planning and jobs run in different processes:

* The process that a user starts plans the configuration and writes the plan file. If nothing has
  changed, this process reads the existing plan file (`subtune.steps.jobs`).
* The process of each job reads the job from the plan file, and writes the outputs of the job.
* Snakemake or `compare` decides which jobs have to run.
"""
