# Numbers behind the tables and figures, one CSV file each.


rule scores:
    input:
        sweeps,
    output:
        all=PATHS.data("{experiment}", "scores"),
        chosen=PATHS.data("{experiment}", "chosen"),
        row_scores=PATHS.data("{experiment}", "row_scores"),
        sizes=PATHS.data("{experiment}", "sizes"),
    log:
        PATHS.log("{experiment}", "scores"),
    localrule: True
    conda:
        CPU
    params:
        runs=runs_of_scores,
        columns=columns,
        paper=paper,
        store=PATHS.records(),
        margin=margin,
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
        planned=runs_of_all_experiments,
        store=records,
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
        runtime=minutes_of_train_scores,
        gpu=1,
    params:
        runs=specs_of_train_scores,
        store=PATHS.records(),
    script:
        "../scripts/train_scores_of_sweep.py"


rule train_scores:
    input:
        chosen=rules.scores.output.chosen,
        sweeps=train_scores_of_sweeps,
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
        unpack(scores_to_reproduce),
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
        unpack(data_of_claims),
    output:
        PATHS.data("{experiment}", "claims"),
    log:
        PATHS.log("{experiment}", "claims"),
    localrule: True
    conda:
        CPU
    params:
        paper=paper,
        tasks=tasks,
        claims=declared_claims,
        train_rows=train_rows,
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
        drawn=parameters_drawn,
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
        fisher_sums,
    output:
        layers=PATHS.data("{experiment}", "layernorm_information"),
        layers_of_all_tasks=PATHS.data("{experiment}", "global_layernorm_information"),
        shares=PATHS.data("{experiment}", "component_shares"),
        parameters=PATHS.data("{experiment}", "parameter_information"),
    log:
        PATHS.log("{experiment}", "information"),
    localrule: True
    conda:
        CPU
    params:
        tasks=tasks,
    script:
        "../scripts/information.py"
