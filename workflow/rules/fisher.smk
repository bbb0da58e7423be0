# Fisher information of every task, before any fine-tuning. These jobs and their inputs go first,
# because one mask may wait for every task.


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
