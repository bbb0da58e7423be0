# Zip files for the GLUE server. A zip file has one method's predictions on the test rows.


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
        job="test_predictions/{experiment}/{encoder}",
    script:
        STEP


for name, job in jobs("submissions").items():

    rule:
        name:
            f"_submissions_{name}"
        input:
            **job.inputs,
        output:
            **job.outputs,
        log:
            PATHS.log(name, "submissions"),
        localrule: True
        conda:
            CPU
        params:
            job=f"submissions/{name}",
        script:
            STEP
