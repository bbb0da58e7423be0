# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(PATHS.model("{model}")),
    log:
        PATHS.log("model", "{model}"),
    cache: True
    priority: 1
    retries: DOWNLOAD_RETRIES if any(m.source == "hub" for m in PLAN.models.values()) else 0
    localrule: True
    conda:
        CPU
    resources:
        hub_cache=CONFIG.hub_cache or PATHS.hub_cache(),
    params:
        spec=lambda w: PLAN.models[w.model].canonical(),
        place=lambda w: PLAN.locations[w.model],
    script:
        "../scripts/model.py"
