# Fisher information of every task, before any fine-tuning. These jobs and their inputs go first,
# because one mask may wait for every task.


rule fisher:
    input:
        tokens=lambda w: PATHS.tokens(PLAN.fishers[w.fisher].tokens.key),
        model=lambda w: PATHS.model(PLAN.fishers[w.fisher].model.id),
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
        mem_mb=lambda w, attempt: ESTIMATES.memory(PLAN.fishers[w.fisher], attempt),
        runtime=lambda w, attempt: ESTIMATES.minutes(
            ESTIMATES.fisher(w.fisher), attempt
        ),
        gpu=1,
    params:
        spec=lambda w: PLAN.fishers[w.fisher].canonical(),
    script:
        "../scripts/fisher.py"
