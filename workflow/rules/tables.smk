# Tables, each as CSV, Markdown and LaTeX.

FORMATS = ("csv", "md", "tex")


def formats(name):
    return [f"{RESULTS}/{{experiment}}/{name}.{ending}" for ending in FORMATS]


rule table1:
    input:
        rules.information.output.components,
    output:
        formats("table1"),
    log:
        RESULTS + "/logs/{experiment}/table1.log",
    localrule: True
    script:
        "../scripts/table1.py"


rule table2:
    input:
        rules.scores.output.chosen,
    output:
        table=formats("table2"),
        choices=formats("table2_choices"),
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        model=lambda wildcards: CONFIG.experiments[wildcards.experiment].model,
        data=lambda wildcards: CONFIG.source,
    log:
        RESULTS + "/logs/{experiment}/table2.log",
    localrule: True
    script:
        "../scripts/table2.py"


rule table4:
    output:
        formats("table4"),
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    log:
        RESULTS + "/logs/{experiment}/table4.log",
    localrule: True
    script:
        "../scripts/table4.py"


rule kruskal_wallis:
    input:
        rules.scores.output.chosen,
    output:
        formats("kruskal_wallis"),
    log:
        RESULTS + "/logs/{experiment}/kruskal_wallis.log",
    localrule: True
    script:
        "../scripts/kruskal_wallis.py"
