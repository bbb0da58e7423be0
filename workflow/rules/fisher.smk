# Fisher information of every task, before any fine-tuning.


rule fisher:
    input:
        tokens=lambda wildcards: f"{RESULTS}/tokens/{PLAN.fishers[wildcards.fisher].tokens.key}",
        model=lambda wildcards: f"{RESULTS}/models/{PLAN.fishers[wildcards.fisher].model.id}",
    output:
        entries=RESULTS + "/fisher/{fisher}.safetensors",
        sums=RESULTS + "/fisher/{fisher}.csv",
    params:
        spec=lambda wildcards: PLAN.fishers[wildcards.fisher].canonical(),
    log:
        RESULTS + "/logs/fisher/{fisher}.log",
    benchmark:
        RESULTS + "/benchmarks/fisher/{fisher}.tsv"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=240,
        gpu=1,
    script:
        "../scripts/fisher.py"
