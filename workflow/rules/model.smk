# Pretrained weights, downloaded or copied once, so that no later job needs a network.


rule model:
    output:
        directory(RESULTS + "/models/{model}"),
    params:
        spec=lambda wildcards: PLAN.models[wildcards.model].canonical(),
        place=lambda wildcards: place_of_model(wildcards.model),
    log:
        RESULTS + "/logs/model/{model}.log",
    benchmark:
        RESULTS + "/benchmarks/model/{model}.tsv"
    localrule: True
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
