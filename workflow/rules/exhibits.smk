# Tables, as CSV, Markdown and LaTeX, figures, as PNG and PDF, and one page with all of them.


for name, job in jobs("exhibits").items():

    rule:
        name:
            f"exhibits_{name}"
        input:
            **job.inputs,
        output:
            **job.outputs,
        log:
            PATHS.log(name, "exhibits"),
        localrule: True
        conda:
            CPU
        params:
            job=f"exhibits/{name}",
        script:
            STEP


rule summary:
    input:
        unpack(inputs("summary/summary")),
    output:
        **PLAN.job("summary/summary").outputs,
    log:
        PATHS.log("summary"),
    localrule: True
    conda:
        CPU
    params:
        job="summary/summary",
    script:
        STEP


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
        job="report_page/report",
    script:
        STEP
