# Sweeps: one job trains many runs and leaves a record of each in the run store.
# Records and checkpoints are not outputs, because Snakemake would delete them. An interrupted job keeps
# its finished runs and continues with the others. If a learning rate is added, the sweep trains only the
# runs with this rate.


# Searches for learning rates; each finds the rate for all seeds and folds of a method.
rule search:
    input:
        tokens=needs("search/{search}", "tokens"),
        model=needs("search/{search}", "model"),
        rankings=needs("search/{search}", "rankings"),
    output:
        PATHS.searches("{search}"),
    log:
        PATHS.log("search", "{search}"),
    benchmark:
        PATHS.benchmark("search", "{search}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("search/{search}"),
        runtime=minutes("search/{search}"),
        gpu=1,
    params:
        job="search/{search}",
    script:
        "../scripts/step.py"


rule train:
    input:
        tokens=needs("train/{sweep}", "tokens"),
        model=needs("train/{sweep}", "model"),
        rankings=needs("train/{sweep}", "rankings"),
        searches=needs("train/{sweep}", "searches"),
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
        mem_mb=memory("train/{sweep}"),
        runtime=minutes("train/{sweep}"),
        gpu=1,
    params:
        job="train/{sweep}",
    script:
        "../scripts/step.py"
