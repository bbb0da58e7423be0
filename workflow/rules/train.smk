# Sweeps: one job trains many runs and leaves a record of each in the run store.
#
# A record is never an output that Snakemake deletes: a job that is cut off keeps the runs it has
# done, and a sweep that has grown by one learning rate trains that one only.


rule train:
    input:
        tokens=lambda wildcards: results(
            f"tokens/{first_run(wildcards.sweep).tokens.key}"
        ),
        model=lambda wildcards: results(f"models/{first_run(wildcards.sweep).model.id}"),
        rankings=lambda wildcards: [
            results(f"masks/{ranking}.safetensors")
            for ranking in PLAN.rankings_of(wildcards.sweep)
        ],
    output:
        results("sweeps/{sweep}.csv"),
    log:
        results("logs/train/{sweep}.log"),
    benchmark:
        results("benchmarks/train/{sweep}.tsv")
    conda:
        "../../envs/subtune.yaml"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=lambda wildcards, attempt: 1440 * attempt,
        gpu=1,
        # Not among the params: it decides no result, so that no sweep is stale for it.
        runs_at_once=CONFIG.runs_at_once or 0,
    params:
        runs=lambda wildcards: [
            PLAN.runs[run].canonical() for run in PLAN.sweeps[wildcards.sweep].runs
        ],
        store=results("runs"),
    script:
        "../scripts/train.py"
