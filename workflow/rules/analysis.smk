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
        "../../envs/cpu.yaml"
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
        paper=lambda wildcards: paper_of(wildcards.experiment),
        store=results("runs"),
    script:
        "../scripts/scores.py"


rule runs:
    input:
        [results(f"sweeps/{sweep}.csv") for sweep in PLAN.sweeps],
    output:
        csv=results("runs.csv"),
        parquet=results("runs.parquet"),
        columns=results("runs_columns.csv"),
    log:
        results("logs/runs.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        planned=[
            {
                "run": planned.run.id,
                "experiment": experiment,
                "model": planned.model,
                "task": planned.task,
                "method": planned.method,
                "fraction": planned.fraction,
                "scope": planned.scope,
                "flops": ESTIMATES.run(planned.run.id).flops,
            }
            for experiment, runs in PLAN.experiments.items()
            for planned in runs
        ],
        store=lambda wildcards: results("runs"),
    script:
        "../scripts/runs.py"


rule train_scores_of_sweep:
    input:
        sweep=results("sweeps/{sweep}.csv"),
        tokens=lambda wildcards: results(
            f"tokens/{first_run(wildcards.sweep).tokens.key}"
        ),
        model=lambda wildcards: results(f"models/{first_run(wildcards.sweep).model.id}"),
    output:
        results("train_scores/{sweep}.csv"),
    log:
        results("logs/train_scores/{sweep}.log"),
    benchmark:
        results("benchmarks/train_scores/{sweep}.tsv")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.sweep_memory(wildcards.sweep, attempt)
        ),
        runtime=lambda wildcards, attempt: ESTIMATES.minutes(
            ESTIMATES.train_scores(compared_on_training_rows(wildcards.sweep)), attempt
        ),
        gpu=1,
    params:
        runs=lambda wildcards: [
            PLAN.runs[run].canonical()
            for run in compared_on_training_rows(wildcards.sweep)
        ],
        store=results("runs"),
    script:
        "../scripts/train_scores_of_sweep.py"


rule train_scores:
    input:
        chosen=rules.scores.output.chosen,
        sweeps=lambda wildcards: [
            results(f"train_scores/{sweep}.csv")
            for sweep in PLAN.sweeps_of(wildcards.experiment)
            if compared_on_training_rows(sweep)
        ],
    output:
        results("{experiment}/data/train_scores.csv"),
    log:
        results("logs/{experiment}/train_scores.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/train_scores.py"


rule reproduction:
    input:
        rules.scores.output.chosen,
    output:
        results("{experiment}/reproduction.csv"),
    log:
        results("logs/{experiment}/reproduction.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        paper=lambda wildcards: paper_of(wildcards.experiment),
    script:
        "../scripts/reproduction.py"


rule learning_curves:
    input:
        rules.scores.output.all,
    output:
        results("{experiment}/data/learning_curves.csv"),
    log:
        results("logs/{experiment}/learning_curves.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        store=results("runs"),
    script:
        "../scripts/learning_curves.py"


rule claims:
    input:
        unpack(lambda wildcards: evidence_of(wildcards.experiment)),
    output:
        results("{experiment}/data/claims.csv"),
    log:
        results("logs/{experiment}/claims.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        paper=lambda wildcards: paper_of(wildcards.experiment),
    script:
        "../scripts/claims.py"


rule parameter_changes:
    input:
        rules.scores.output.chosen,
    output:
        results("{experiment}/data/parameter_changes.csv"),
    log:
        results("logs/{experiment}/parameter_changes.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit", "bitfit_plus"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        shown=lambda wildcards: changes_in(wildcards.experiment),
        store=results("runs"),
    script:
        "../scripts/parameter_changes.py"


rule changes:
    input:
        rules.scores.output.chosen,
    output:
        results("{experiment}/data/changes.csv"),
    log:
        results("logs/{experiment}/changes.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
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
        shares=results("{experiment}/data/component_shares.csv"),
    log:
        results("logs/{experiment}/information.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: list(CONFIG.experiments[wildcards.experiment].tasks),
    script:
        "../scripts/information.py"
