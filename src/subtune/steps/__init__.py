"""The workflow's steps, one file each: what its jobs need, make and ask for, and what a job does.

A *step* is a kind of work, such as `train`: the module ``subtune.steps.train`` has the functions
``jobs``, which yields the step's jobs from a plan, and ``run``, which does one. Snakemake's rule
has the same name. A *job* is one piece of a step's work, such as the runs of one sweep. (A training
step is something else: one update of a model's parameters.)

Who writes which file, in which process:

* The process that a user starts plans the configuration, or reads the plan's file if nothing has
  changed, and writes the plan's file (`subtune.steps.jobs`).
* Each job's process reads its job from the plan's file, and writes the job's outputs.
* Snakemake, or `compare`, decides which jobs have to run.
"""
