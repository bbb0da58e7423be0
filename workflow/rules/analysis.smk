# Numbers of the recorded runs, one CSV file each.


rule scores:
    input:
        unpack(inputs("scores/{experiment}")),
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
        job="scores/{experiment}",
    script:
        STEP


rule runs:
    input:
        unpack(inputs("runs/runs")),
    output:
        **PLAN.job("runs/runs").outputs,
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        job="runs/runs",
    script:
        STEP
