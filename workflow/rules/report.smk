# One page with every table, figure, cost and origin, that opens without a network.


rule report_page:
    input:
        runs=rules.runs.output.parquet,
        files=files_in_report,
    output:
        PATHS.report(),
    log:
        PATHS.log("report"),
    localrule: True
    conda:
        CPU
    params:
        answer=answer,
        sections=sections,
        config=CONFIG.model_dump(mode="json", exclude_defaults=True),
    script:
        "../scripts/report_page.py"
