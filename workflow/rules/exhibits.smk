# Tables (CSV, Markdown, LaTeX), figures (PNG, PDF), and one page with all of them.


# The directory contains the tables and figures for which there are data.
rule exhibits:
    input:
        scores=needs("exhibits/{experiment}", "scores"),
        chosen=needs("exhibits/{experiment}", "chosen"),
        row_scores=needs("exhibits/{experiment}", "row_scores"),
        sizes=needs("exhibits/{experiment}", "sizes"),
        learning_curves=needs("exhibits/{experiment}", "learning_curves"),
        changes=needs("exhibits/{experiment}", "changes"),
        parameter_changes=needs("exhibits/{experiment}", "parameter_changes"),
        test_scores=needs("exhibits/{experiment}", "test_scores"),
        fisher_sums=needs("exhibits/{experiment}", "fisher_sums"),
        models=needs("exhibits/{experiment}", "models"),
        datasets=needs("exhibits/{experiment}", "datasets"),
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
        chosen=needs("summary/summary", "chosen"),
        row_scores=needs("summary/summary", "row_scores"),
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
        runs=needs("report_page/report", "runs"),
        summary=needs("report_page/report", "summary"),
        exhibits=needs("report_page/report", "exhibits"),
        submissions=needs("report_page/report", "submissions"),
        scores=needs("report_page/report", "scores"),
        learning_curves=needs("report_page/report", "learning_curves"),
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
