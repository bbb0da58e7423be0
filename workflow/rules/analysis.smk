# Numbers of the recorded runs, one CSV file each.


rule scores:
    input:
        sweeps,
    output:
        all=PATHS.data("{experiment}", "scores"),
        chosen=PATHS.data("{experiment}", "chosen"),
        row_scores=PATHS.data("{experiment}", "row_scores"),
        sizes=PATHS.data("{experiment}", "sizes"),
        learning_curves=PATHS.data("{experiment}", "learning_curves"),
        changes=PATHS.data("{experiment}", "changes"),
        parameter_changes=PATHS.data("{experiment}", "parameter_changes"),
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
        drawn=parameters_drawn,
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
