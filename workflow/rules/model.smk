# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(PATHS.model("{model}")),
    log:
        PATHS.log("model", "{model}"),
    benchmark:
        PATHS.benchmark("model", "{model}")
    priority: 1
    localrule: True
    conda:
        CPU
    resources:
        hub_cache=CONFIG.hub_cache or PATHS.hub_cache(),
    params:
        spec=lambda wildcards: PLAN.models[wildcards.model].canonical(),
        place=lambda wildcards: PLAN.model_locations[wildcards.model],
    script:
        "../scripts/model.py"
