# Numbers behind the tables and figures, one CSV file each.


rule scores:
    input:
        lambda wildcards: [
            results(f"sweeps/{sweep}.csv")
            for sweep in PLAN.sweeps_of(wildcards.experiment)
        ],
    output:
        all=results("{experiment}/data/scores.csv"),
        chosen=results("{experiment}/data/chosen.csv"),
    log:
        results("logs/{experiment}/scores.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        runs=lambda wildcards: [
            {
                "run": planned.run.id,
                "model": planned.model,
                "task": planned.task,
                "method": planned.method,
                "fraction": planned.fraction,
                "scope": planned.scope,
                "learning_rate": planned.run.recipe.learning_rate,
                "seed": planned.run.seed,
            }
            for planned in PLAN.experiments[wildcards.experiment]
        ],
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        store=results("runs"),
    script:
        "../scripts/scores.py"


rule changes:
    input:
        rules.scores.output.chosen,
    output:
        results("{experiment}/data/changes.csv"),
    log:
        results("logs/{experiment}/changes.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        store=results("runs"),
    script:
        "../scripts/changes.py"


rule information:
    input:
        lambda wildcards: [
            results(f"fisher/{fisher.key}.csv")
            for fisher in PLAN.experiment_fishers[wildcards.experiment].values()
        ],
    output:
        layernorm=results("{experiment}/data/layernorm_information.csv"),
        components=results("{experiment}/data/component_ranking.csv"),
    log:
        results("logs/{experiment}/information.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        tasks=lambda wildcards: list(CONFIG.experiments[wildcards.experiment].tasks),
    script:
        "../scripts/information.py"
