# Fisher information of every task, before any fine-tuning. It and what it reads go first, since
# one mask may wait for every task.


rule fisher:
    input:
        tokens=lambda wildcards: PATHS.tokens(PLAN.fishers[wildcards.fisher].tokens.key),
        model=lambda wildcards: PATHS.model(PLAN.fishers[wildcards.fisher].model.id),
    output:
        entries=PATHS.fisher_entries("{fisher}"),
        sums=PATHS.fisher_sums("{fisher}"),
    log:
        PATHS.log("fisher", "{fisher}"),
    benchmark:
        PATHS.benchmark("fisher", "{fisher}")
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
