# Figures, each as PNG and PDF. A figure's style is its rule's own parameter.


rule figure1:
    input:
        rules.changes.output[0],
    output:
        report(
            drawn("figure1"),
            caption="../report/figure1.rst",
            category="{experiment}",
        ),
    log:
        results("logs/{experiment}/figure1.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure1").model_dump(),
    script:
        "../scripts/figure1.py"


rule figure2:
    input:
        rules.scores.output.chosen,
    output:
        report(
            drawn("figure2"),
            caption="../report/figure2.rst",
            category="{experiment}",
        ),
    log:
        results("logs/{experiment}/figure2.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        style=CONFIG.style("figure2").model_dump(),
    script:
        "../scripts/figure2.py"


rule figure3:
    input:
        rules.information.output.layernorm,
    output:
        report(
            drawn("figure3"),
            caption="../report/figure3.rst",
            category="{experiment}",
        ),
    log:
        results("logs/{experiment}/figure3.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure3").model_dump(),
    script:
        "../scripts/figure3.py"


rule figure4:
    input:
        rules.information.output.layernorm,
    output:
        report(
            drawn("figure4"),
            caption="../report/figure4.rst",
            category="{experiment}",
        ),
    log:
        results("logs/{experiment}/figure4.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure4").model_dump(),
    script:
        "../scripts/figure4.py"


rule figure5:
    input:
        rules.scores.output.chosen,
    output:
        report(
            drawn("figure5"),
            caption="../report/figure5.rst",
            category="{experiment}",
        ),
    log:
        results("logs/{experiment}/figure5.log"),
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        style=CONFIG.style("figure5").model_dump(),
    script:
        "../scripts/figure5.py"
