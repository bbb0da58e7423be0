# Tables, each as CSV, Markdown and LaTeX.


rule table1:
    input:
        rules.information.output.components,
    output:
        written("table1"),
    log:
        results("logs/{experiment}/table1.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    script:
        "../scripts/table1.py"


rule table2:
    input:
        rules.scores.output.chosen,
    output:
        table=written("table2"),
        choices=written("table2_choices"),
    log:
        results("logs/{experiment}/table2.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        model=lambda wildcards: CONFIG.experiments[wildcards.experiment].models[0],
        data=lambda wildcards: CONFIG.source,
    script:
        "../scripts/table2.py"


rule table4:
    output:
        written("table4"),
    log:
        results("logs/{experiment}/table4.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/table4.py"


rule kruskal_wallis:
    input:
        rules.scores.output.chosen,
    output:
        written("kruskal_wallis"),
    log:
        results("logs/{experiment}/kruskal_wallis.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    script:
        "../scripts/kruskal_wallis.py"
