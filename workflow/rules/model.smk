# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(results("models/{model}")),
    log:
        results("logs/model/{model}.log"),
    benchmark:
        results("benchmarks/model/{model}.tsv")
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        spec=lambda wildcards: PLAN.models[wildcards.model].canonical(),
        place=lambda wildcards: place_of_model(wildcards.model),
    script:
        "../scripts/model.py"


def place_of_model(model):
    """Where the files of a model lie: the hub's repository id or a local directory."""
    sources = CONFIG.all_models()
    used = {experiment.model for experiment in CONFIG.experiments.values()}
    return next(
        grid.model_place(sources[name])
        for name in sorted(used)
        if grid.model_spec(name, sources[name]).id == model
    )
