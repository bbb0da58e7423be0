# Inputs of runs: the examples of each task, pretrained models, and token ids. Only these jobs use the network.


rule dataset:
    output:
        directory(PATHS.dataset("{dataset}")),
    log:
        PATHS.log("dataset", "{dataset}"),
    cache: True
    priority: SHORT
    retries: retries("dataset")
    localrule: True
    conda:
        CPU
    params:
        job="dataset/{dataset}",
    script:
        "../scripts/step.py"


rule model:
    output:
        directory(PATHS.model("{model}")),
    log:
        PATHS.log("model", "{model}"),
    cache: True
    priority: SHORT
    retries: retries("model")
    localrule: True
    conda:
        CPU
    params:
        job="model/{model}",
    script:
        "../scripts/step.py"


rule tokens:
    input:
        needs_made("tokens/{tokens}"),
    output:
        directory(PATHS.tokens("{tokens}")),
    log:
        PATHS.log("tokens", "{tokens}"),
    cache: True
    priority: SHORT
    conda:
        CPU
    threads: 1
    resources:
        mem_mb=memory("tokens/{tokens}"),
        runtime=minutes("tokens/{tokens}"),
    params:
        job="tokens/{tokens}",
    script:
        "../scripts/step.py"
