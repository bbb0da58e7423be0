# Fisher information of every task, before any fine-tuning. It and what it reads go first, since
# one mask may wait for every task.


rule fisher:
    input:
        tokens=lambda wildcards: results(
            f"tokens/{PLAN.fishers[wildcards.fisher].tokens.key}"
        ),
        model=lambda wildcards: results(
            f"models/{PLAN.fishers[wildcards.fisher].model.id}"
        ),
    output:
        entries=results("fisher/{fisher}.safetensors"),
        sums=results("fisher/{fisher}.csv"),
    log:
        results("logs/fisher/{fisher}.log"),
    benchmark:
        results("benchmarks/fisher/{fisher}.tsv")
    priority: 1
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.fisher_memory(wildcards.fisher, attempt)
        ),
        runtime=lambda wildcards, attempt: (
            ESTIMATES.minutes(ESTIMATES.fisher(wildcards.fisher), attempt)
        ),
        gpu=1,
    params:
        spec=lambda wildcards: PLAN.fishers[wildcards.fisher].canonical(),
    script:
        "../scripts/fisher.py"
