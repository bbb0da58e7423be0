# Numbers behind the tables and figures, one CSV file each.


rule scores:
    input:
        lambda wildcards: [
            PATHS.sweep(sweep) for sweep in PLAN.sweeps_of(wildcards.experiment)
        ],
    output:
        all=PATHS.data("{experiment}", "scores"),
        chosen=PATHS.data("{experiment}", "chosen"),
        sizes=PATHS.data("{experiment}", "sizes"),
    log:
        PATHS.log("{experiment}", "scores"),
    localrule: True
    conda:
        CPU
    params:
        runs=lambda wildcards: [
            {
                "run": planned.run.id,
                "model": planned.model,
                "task": planned.task,
                "method": planned.method,
                "fraction": planned.fraction,
                "scope": planned.scope,
                "train_rows": planned.train_rows,
                "learning_rate": planned.run.recipe.learning_rate,
                "seed": planned.run.seed,
            }
            for planned in PLAN.experiments[wildcards.experiment]
        ],
        columns=columns,
        store=PATHS.records(),
    script:
        "../scripts/scores.py"


rule runs:
    input:
        [PATHS.sweep(sweep) for sweep in PLAN.sweeps],
    output:
        csv=PATHS.table_of_runs("csv"),
        parquet=PATHS.table_of_runs("parquet"),
        columns=PATHS.columns_of_runs(),
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        planned=lambda wildcards: [
            {
                "run": planned.run.id,
                "experiment": experiment,
                "model": planned.model,
                "task": planned.task,
                "method": planned.method,
                "fraction": planned.fraction,
                "scope": planned.scope,
                "train_rows": planned.train_rows,
                "flops": ESTIMATES.run(planned.run.id).flops,
            }
            for experiment, runs in PLAN.experiments.items()
            for planned in runs
        ],
        store=lambda wildcards: PATHS.records(),
    script:
        "../scripts/runs.py"


rule train_scores_of_sweep:
    input:
        sweep=PATHS.sweep("{sweep}"),
        tokens=tokens_of_sweep,
        model=model_of_sweep,
    output:
        PATHS.train_scores("{sweep}"),
    log:
        PATHS.log("train_scores", "{sweep}"),
    benchmark:
        PATHS.benchmark("train_scores", "{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=sweep_memory,
        runtime=lambda wildcards, attempt: ESTIMATES.minutes(
            ESTIMATES.train_scores(scored_on_training_rows(wildcards.sweep)), attempt
        ),
        gpu=1,
    params:
        runs=lambda wildcards: [
            PLAN.runs[run].canonical()
            for run in scored_on_training_rows(wildcards.sweep)
        ],
        store=PATHS.records(),
    script:
        "../scripts/train_scores_of_sweep.py"


rule train_scores:
    input:
        chosen=rules.scores.output.chosen,
        sweeps=lambda wildcards: [
            PATHS.train_scores(sweep)
            for sweep in PLAN.sweeps_of(wildcards.experiment)
            if scored_on_training_rows(sweep)
        ],
    output:
        PATHS.data("{experiment}", "train_scores"),
    log:
        PATHS.log("{experiment}", "train_scores"),
    localrule: True
    conda:
        CPU
    script:
        "../scripts/train_scores.py"


rule reproduction:
    input:
        unpack(
            lambda wildcards: {
                name: PATHS.data(wildcards.experiment, name)
                for name in ("chosen", "test_scores")
                if contents.has_data(CONFIG, settings(wildcards), name)
            }
        ),
    output:
        PATHS.data("{experiment}", "reproduction"),
    log:
        PATHS.log("{experiment}", "reproduction"),
    localrule: True
    conda:
        CPU
    params:
        paper=paper,
        printed=printed_version,
    script:
        "../scripts/reproduction.py"


rule learning_curves:
    input:
        rules.scores.output.all,
    output:
        PATHS.data("{experiment}", "learning_curves"),
    log:
        PATHS.log("{experiment}", "learning_curves"),
    localrule: True
    conda:
        CPU
    params:
        store=PATHS.records(),
    script:
        "../scripts/learning_curves.py"


rule claims:
    input:
        unpack(
            lambda wildcards: {
                name: PATHS.data(wildcards.experiment, name)
                for name in contents.data_of_claims(CONFIG, settings(wildcards))
            }
        ),
    output:
        PATHS.data("{experiment}", "claims"),
    log:
        PATHS.log("{experiment}", "claims"),
    localrule: True
    conda:
        CPU
    params:
        paper=paper,
        tasks=lambda wildcards: list(settings(wildcards).tasks),
        claims=lambda wildcards: contents.declared_claims(settings(wildcards)),
        train_rows=lambda wildcards: contents.train_rows(PLAN, wildcards.experiment),
        printed=printed_version,
    script:
        "../scripts/claims.py"


rule parameter_changes:
    input:
        rules.scores.output.chosen,
    output:
        PATHS.data("{experiment}", "parameter_changes"),
    log:
        PATHS.log("{experiment}", "parameter_changes"),
    localrule: True
    conda:
        CPU
    params:
        drawn=lambda wildcards: contents.parameters_drawn(CONFIG, settings(wildcards)),
        store=PATHS.records(),
    script:
        "../scripts/parameter_changes.py"


rule changes:
    input:
        rules.scores.output.chosen,
    output:
        PATHS.data("{experiment}", "changes"),
    log:
        PATHS.log("{experiment}", "changes"),
    localrule: True
    conda:
        CPU
    params:
        store=PATHS.records(),
    script:
        "../scripts/changes.py"


rule information:
    input:
        lambda wildcards: [
            PATHS.fisher_sums(fisher.key)
            for fisher in PLAN.experiment_fishers[wildcards.experiment].values()
        ],
    output:
        layers=PATHS.data("{experiment}", "layernorm_information"),
        layers_of_all_tasks=PATHS.data("{experiment}", "global_layernorm_information"),
        shares=PATHS.data("{experiment}", "component_shares"),
    log:
        PATHS.log("{experiment}", "information"),
    localrule: True
    conda:
        CPU
    params:
        tasks=lambda wildcards: list(settings(wildcards).tasks),
    script:
        "../scripts/information.py"
