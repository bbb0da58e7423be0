# Tables (CSV, Markdown, LaTeX), figures (PNG, PDF), and one page with all of them.


# The directory contains the tables and figures for which there are data.
rule exhibits:
    input:
        needs("exhibits/{experiment}"),
    output:
        report(
            directory(PATHS.exhibits("{experiment}")),
            patterns=["{name,[^/]+}.png", "{name,[^/]+}.csv"],
            caption="../report/exhibit.rst",
            category="{experiment}",
            labels={"exhibit": "{name}"},
        ),
    log:
        PATHS.log("{experiment}", "exhibits"),
    priority: SHORT
    localrule: True
    conda:
        CPU
    params:
        job="exhibits/{experiment}",
        rerun_if_changed=spec_hash("exhibits/{experiment}"),
    script:
        "../scripts/step.py"


# The answers, and a table and a figure with all experiments.
rule summary:
    input:
        needs("summary/summary"),
    output:
        answers=[PATHS.summary("answers", ending) for ending in ("csv", "md", "tex")],
        front=report(
            [PATHS.summary("front", ending) for ending in ("png", "pdf")],
            caption="../report/summary.rst",
            category="All experiments",
        ),
        summary=report(
            [PATHS.summary("summary", ending) for ending in ("csv", "md", "tex")],
            caption="../report/summary.rst",
            category="All experiments",
        ),
    log:
        PATHS.log("summary"),
    localrule: True
    conda:
        CPU
    params:
        job="summary/summary",
        rerun_if_changed=spec_hash("summary/summary"),
    script:
        "../scripts/step.py"


rule report_page:
    input:
        needs("report_page/report"),
    output:
        report(PATHS.report(), caption="../report/page.rst", category="All experiments"),
    log:
        PATHS.log("report"),
    localrule: True
    conda:
        CPU
    params:
        job="report_page/report",
        rerun_if_changed=spec_hash("report_page/report"),
    script:
        "../scripts/step.py"
