# Sweeps: one job trains many runs and leaves a record of each in the run store.
# Records and checkpoints are not outputs, because Snakemake would delete them. An interrupted job keeps
# its finished runs and continues with the others. If a learning rate is added, the sweep trains only the
# runs with this rate.


# A job has one or several searches; each finds the learning rate for all seeds and folds of a method.
rule search:
    input:
        tokens=needs_made("search/{searches}", "tokens"),
        model=needs_made("search/{searches}", "model"),
        rankings=needs_made("search/{searches}", "rankings"),
        texts=needs_made("search/{searches}", "texts"),
    output:
        PATHS.searches("{searches}"),
    log:
        PATHS.log("search", "{searches}"),
    benchmark:
        PATHS.benchmark("search", "{searches}")
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
        tokens=needs_made("train/{sweep}", "tokens"),
        model=needs_made("train/{sweep}", "model"),
        rankings=needs_made("train/{sweep}", "rankings"),
        texts=needs_made("train/{sweep}", "texts"),
        searches=needs_made("train/{sweep}", "searches"),
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
