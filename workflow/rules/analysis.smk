# Scores and other tables of recorded runs. Records are not inputs of rules, because no rule declares them as outputs (train.smk).


rule scores:
    input:
        needs("scores/{experiment}"),
    output:
        [PATHS.data("{experiment}", table) for table in SCORE_TABLES],
    log:
        PATHS.log("{experiment}", "scores"),
    priority: SHORT
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
