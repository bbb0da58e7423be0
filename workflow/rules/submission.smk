# Zip files for the GLUE server, each with the predictions of one method on the test sets.


rule test_predictions:
    input:
        needs("test_predictions/{experiment}/{model_name}"),
    output:
        PATHS.test_predictions("{experiment}", "{model_name}"),
    log:
        PATHS.log("{experiment}", "test_predictions", "{model_name}"),
    benchmark:
        PATHS.benchmark("{experiment}", "test_predictions", "{model_name}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=memory("test_predictions/{experiment}/{model_name}"),
        runtime=minutes("test_predictions/{experiment}/{model_name}"),
        gpu=1,
    params:
        job="test_predictions/{experiment}/{model_name}",
        rerun_if_changed=spec_hash("test_predictions/{experiment}/{model_name}"),
    script:
        "../scripts/step.py"


rule submission:
    input:
        needs("submission/{experiment}"),
    output:
        directory(PATHS.submission("{experiment}")),
    log:
        PATHS.log("{experiment}", "submission"),
    localrule: True
    conda:
        CPU
    params:
        job="submission/{experiment}",
        rerun_if_changed=spec_hash("submission/{experiment}"),
    script:
        "../scripts/step.py"
