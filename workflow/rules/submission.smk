# Zip files for the GLUE server. A zip file has one method's predictions on the test rows.


rule test_predictions:
    input:
        chosen=needs("test_predictions/{experiment}/{encoder}", "chosen"),
        tokens=needs("test_predictions/{experiment}/{encoder}", "tokens"),
        model=needs("test_predictions/{experiment}/{encoder}", "model"),
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
        settings=settings("test_predictions/{experiment}/{encoder}"),
    script:
        "../scripts/step.py"


rule submission:
    input:
        chosen=needs("submission/{experiment}", "chosen"),
        predicted=needs("submission/{experiment}", "predicted"),
    output:
        directory(PATHS.submission("{experiment}")),
    log:
        PATHS.log("{experiment}", "submission"),
    localrule: True
    conda:
        CPU
    params:
        job="submission/{experiment}",
        settings=settings("submission/{experiment}"),
    script:
        "../scripts/step.py"
