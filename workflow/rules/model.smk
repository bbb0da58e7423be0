# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(results("models/{model}")),
    log:
        results("logs/model/{model}.log"),
    benchmark:
        results("benchmarks/model/{model}.tsv")
    priority: 1
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    resources:
        hub_cache=HUB_CACHE,
    params:
        spec=lambda wildcards: PLAN.models[wildcards.model].canonical(),
        place=lambda wildcards: PLAN.model_locations[wildcards.model],
    script:
        "../scripts/model.py"
