# Fisher information and gradients of each task before fine-tuning, and masks of the entries that rules score highest.


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


use rule fisher as gradient with:
    input:
        needs_made("gradient/{fisher}"),
    output:
        PATHS.gradient("{fisher}"),
    log:
        PATHS.log("gradient", "{fisher}"),
    resources:
        mem_mb=memory("gradient/{fisher}"),
        runtime=minutes("gradient/{fisher}"),
        gpu=1,
    params:
        job="gradient/{fisher}",


rule mask:
    input:
        needs_made("mask/{mask}"),
    output:
        multiext(PATHS.mask_prefix("{mask}"), mask=".safetensors", code=".py"),
    log:
        PATHS.log("mask", "{mask}"),
    priority: SHORT
    localrule: True
    conda:
        CPU
    params:
        job="mask/{mask}",
    script:
        "../scripts/step.py"
