# Numbers of the recorded runs, one CSV file each.


rule scores:
    input:
        sweeps=needs("scores/{experiment}", "sweeps"),
        searches=needs("scores/{experiment}", "searches"),
    output:
        scores=PATHS.data("{experiment}", "scores"),
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
        job="scores/{experiment}",
        settings=settings("scores/{experiment}"),
    script:
        "../scripts/step.py"


rule runs:
    input:
        sweeps=needs("runs/runs", "sweeps"),
        searches=needs("runs/runs", "searches"),
    output:
        PATHS.table_of_runs(),
        PATHS.columns_of_runs(),
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        job="runs/runs",
        settings=settings("runs/runs"),
    script:
        "../scripts/step.py"
