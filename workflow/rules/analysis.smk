# Scores and other tables of recorded runs. Records are not inputs of rules, because no rule declares them as outputs (train.smk).


rule scores:
    input:
        needs("scores/{experiment}"),
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
        rerun_if_changed=spec_hash("scores/{experiment}"),
    script:
        "../scripts/step.py"


rule runs:
    input:
        needs("runs/runs"),
    output:
        csv=PATHS.table_of_runs(),
        columns=PATHS.columns_of_runs(),
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        job="runs/runs",
        rerun_if_changed=spec_hash("runs/runs"),
    script:
        "../scripts/step.py"
