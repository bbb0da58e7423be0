# Fisher information of each task before fine-tuning, and rankings of parameters by Fisher information.


rule fisher:
    input:
        needs_made("fisher/{fisher}"),
    output:
        multiext(PATHS.fisher_prefix("{fisher}"), entries=".safetensors", sums=".csv"),
    log:
        PATHS.log("fisher", "{fisher}"),
    cache: True
    priority: SHORT
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("fisher/{fisher}"),
        runtime=minutes("fisher/{fisher}"),
        gpu=1,
    params:
        job="fisher/{fisher}",
    script:
        "../scripts/step.py"


rule ranking:
    input:
        needs_made("ranking/{ranking}"),
    output:
        PATHS.ranking("{ranking}"),
    log:
        PATHS.log("ranking", "{ranking}"),
    priority: SHORT
    localrule: True
    conda:
        CPU
    params:
        job="ranking/{ranking}",
    script:
        "../scripts/step.py"
