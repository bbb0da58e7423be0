# Numbers behind the tables and figures, one CSV file each.


rule scores:
    input:
        lambda wildcards: [
            f"{RESULTS}/sweeps/{sweep}.csv" for sweep in PLAN.sweeps_of(wildcards.experiment)
        ],
    output:
        all=RESULTS + "/{experiment}/data/scores.csv",
        chosen=RESULTS + "/{experiment}/data/chosen.csv",
    params:
        runs=lambda wildcards: [
            {
                "run": planned.run.id,
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
        store=RESULTS + "/runs",
    log:
        RESULTS + "/logs/{experiment}/scores.log",
    localrule: True
    script:
        "../scripts/scores.py"


rule changes:
    input:
        rules.scores.output.chosen,
    output:
        RESULTS + "/{experiment}/data/changes.csv",
    params:
        store=RESULTS + "/runs",
    log:
        RESULTS + "/logs/{experiment}/changes.log",
    localrule: True
    script:
        "../scripts/changes.py"


rule information:
    input:
        lambda wildcards: [
            f"{RESULTS}/fisher/{fisher.key}.csv"
            for fisher in PLAN.experiment_fishers[wildcards.experiment].values()
        ],
    output:
        layernorm=RESULTS + "/{experiment}/data/layernorm_information.csv",
        components=RESULTS + "/{experiment}/data/component_ranking.csv",
    params:
        tasks=lambda wildcards: list(CONFIG.experiments[wildcards.experiment].tasks),
    log:
        RESULTS + "/logs/{experiment}/information.log",
    localrule: True
    script:
        "../scripts/information.py"
