# Tables, as CSV, Markdown and LaTeX, figures, as PNG and PDF, and one page with all of them.


for name, stage in stages("exhibits").items():

    rule:
        name:
            f"exhibits_{name}"
        input:
            **stage.inputs,
        output:
            **stage.outputs,
        log:
            PATHS.log(name, "exhibits"),
        localrule: True
        conda:
            CPU
        params:
            stage=f"exhibits/{name}",
        script:
            STAGE


rule summary:
    input:
        unpack(inputs("summary/summary")),
    output:
        **PLAN.stage("summary/summary").outputs,
    log:
        PATHS.log("summary"),
    localrule: True
    conda:
        CPU
    params:
        stage="summary/summary",
    script:
        STAGE


rule report_page:
    input:
        unpack(inputs("report_page/report")),
    output:
        PATHS.report(),
    log:
        PATHS.log("report"),
    localrule: True
    conda:
        CPU
    params:
        stage="report_page/report",
    script:
        STAGE
