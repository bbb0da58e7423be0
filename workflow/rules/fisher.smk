# Fisher information of every task, before any fine-tuning. These jobs and their inputs go first,
# because one mask may wait for every task.


def tokens_of_fisher(wildcards):
    return PATHS.tokens(PLAN.fishers[wildcards.fisher].tokens.key)


def model_of_fisher(wildcards):
    return PATHS.model(PLAN.fishers[wildcards.fisher].model.id)


def fisher_spec(wildcards):
    return PLAN.fishers[wildcards.fisher].canonical()


def fisher_memory(wildcards, attempt):
    return ESTIMATES.fisher_memory(wildcards.fisher, attempt)


def fisher_minutes(wildcards, attempt):
    return ESTIMATES.minutes(ESTIMATES.fisher(wildcards.fisher), attempt)


rule fisher:
    input:
        tokens=tokens_of_fisher,
        model=model_of_fisher,
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
        mem_mb=fisher_memory,
        runtime=fisher_minutes,
        gpu=1,
    params:
        spec=fisher_spec,
    script:
        "../scripts/fisher.py"
