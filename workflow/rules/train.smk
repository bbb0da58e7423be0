# Sweeps: one job trains many runs and leaves a record of each in the run store.
#
# Records and checkpoints are never outputs that Snakemake deletes: a job that is cut off keeps the
# runs it has done and goes on with the others, and a sweep that has grown by one learning rate
# trains that one only.


rule train:
    input:
        tokens=lambda wildcards: PATHS.tokens(first_run(wildcards.sweep).tokens.key),
        model=lambda wildcards: PATHS.model(first_run(wildcards.sweep).model.id),
        rankings=lambda wildcards: [
            PATHS.ranking(ranking) for ranking in PLAN.rankings_of(wildcards.sweep)
        ],
        # What `subtune verify --repair` writes makes the sweep older than an input.
        repairs=lambda wildcards: list(filter(exists, [PATHS.repair(wildcards.sweep)])),
    output:
        PATHS.sweep("{sweep}"),
    log:
        PATHS.log("train", "{sweep}"),
    benchmark:
        PATHS.benchmark("train", "{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.sweep_memory(wildcards.sweep, attempt)
        ),
        runtime=lambda wildcards, attempt: (
            ESTIMATES.minutes(ESTIMATES.sweep(wildcards.sweep), attempt)
        ),
        gpu=1,
        # Not among the params: they decide no result, so that no sweep is stale for them.
        runs_at_once=CONFIG.runs_at_once or 0,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        runs=lambda wildcards: [
            PLAN.runs[run].canonical() for run in PLAN.sweeps[wildcards.sweep].runs
        ],
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("{sweep}"),
        progress=PATHS.progress("{sweep}"),
    script:
        "../scripts/train.py"
