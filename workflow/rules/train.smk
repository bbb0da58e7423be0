# Sweeps: a job trains many runs and writes a record of each run.
# Records and checkpoints are not outputs, because Snakemake deletes the outputs of a failed job. If an
# interrupted job is called again, it trains only the runs without a record. If a learning rate is added to
# the configuration, only the runs with this rate are trained.


# A job runs one or several searches. Each search finds the learning rate for all seeds and folds of a method.
rule search:
    input:
        needs_made("search/{searches}"),
    output:
        PATHS.searches("{searches}"),
    log:
        PATHS.log("search", "{searches}"),
    benchmark:
        PATHS.benchmark("search", "{searches}")
    priority: longest_first("search/{searches}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("search/{searches}"),
        runtime=minutes("search/{searches}"),
        gpu=1,
    params:
        job="search/{searches}",
    script:
        "../scripts/step.py"


rule train:
    input:
        needs_made("train/{sweep}"),
    output:
        PATHS.sweep("{sweep}"),
    log:
        PATHS.log("train", "{sweep}"),
    benchmark:
        PATHS.benchmark("train", "{sweep}")
    priority: longest_first("train/{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("train/{sweep}"),
        runtime=minutes("train/{sweep}"),
        gpu=gpus("train/{sweep}"),
    params:
        job="train/{sweep}",
    script:
        "../scripts/step.py"
