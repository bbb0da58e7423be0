# Zip files for the GLUE server, and the scores that it returns. A zip file has one method's predictions
# on the test rows.


rule test_predictions:
    input:
        unpack(inputs("test_predictions/{experiment}/{encoder}")),
    output:
        PATHS.test_predictions("{experiment}", "{encoder}"),
    log:
        PATHS.log("{experiment}", "test_predictions", "{encoder}"),
    benchmark:
        PATHS.benchmark("{experiment}", "test_predictions", "{encoder}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("test_predictions/{experiment}/{encoder}"),
        runtime=minutes("test_predictions/{experiment}/{encoder}"),
        gpu=1,
    params:
        stage="test_predictions/{experiment}/{encoder}",
    script:
        STAGE


for name, stage in stages("submissions").items():

    rule:
        name:
            f"_submissions_{name}"
        input:
            **stage.inputs,
        output:
            **stage.outputs,
        log:
            PATHS.log(name, "submissions"),
        localrule: True
        conda:
            CPU
        params:
            stage=f"submissions/{name}",
        script:
            STAGE


rule test_scores:
    input:
        unpack(inputs("test_scores/{experiment}")),
    output:
        PATHS.data("{experiment}", "test_scores"),
    log:
        PATHS.log("{experiment}", "test_scores"),
    localrule: True
    conda:
        CPU
    params:
        stage="test_scores/{experiment}",
    script:
        STAGE
