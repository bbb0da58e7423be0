# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(PATHS.model("{model}")),
    log:
        PATHS.log("model", "{model}"),
    cache: True
    priority: 1
    retries: DOWNLOAD_RETRIES if PLAN.has_hub_models else 0
    localrule: True
    conda:
        CPU
    resources:
        hub_cache=CONFIG.hub_cache or PATHS.hub_cache(),
    params:
        spec=model_spec,
        place=model_location,
    script:
        "../scripts/model.py"
