# Figures, each as PNG and PDF. A figure's style is its rule's own parameter.


rule parameter_changes_figure:
    input:
        rules.parameter_changes.output[0],
    output:
        drawn("{figure}", "parameter_changes"),
    log:
        results("logs/{experiment}/{figure}.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit", "bitfit_plus"),
        figure="figure[0-9]+",
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        shown=lambda wildcards: changes_in(wildcards.experiment)[wildcards.figure],
        style=CONFIG.style("changes").model_dump(),
    script:
        "../scripts/parameter_changes_figure.py"


rule reproduction_figure:
    input:
        rules.reproduction.output[0],
    output:
        drawn("reproduction", "reproduction"),
    log:
        results("logs/{experiment}/reproduction_figure.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        style=CONFIG.style("reproduction").model_dump(),
    script:
        "../scripts/reproduction_figure.py"


rule learning_curves_figure:
    input:
        chosen=rules.scores.output.chosen,
        curves=rules.learning_curves.output[0],
    output:
        drawn("learning_curves", "learning_curves"),
    log:
        results("logs/{experiment}/learning_curves_figure.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("learning_curves").model_dump(),
    script:
        "../scripts/learning_curves_figure.py"


rule figure1:
    input:
        rules.changes.output[0],
    output:
        drawn("figure1", "layernorm_figure1"),
    log:
        results("logs/{experiment}/figure1.log"),
    wildcard_constraints:
        experiment=of_paper("layernorm"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure1").model_dump(),
    script:
        "../scripts/figure1.py"


rule figure2:
    input:
        rules.scores.output.chosen,
    output:
        drawn("figure2", "layernorm_figure2"),
    log:
        results("logs/{experiment}/figure2.log"),
    wildcard_constraints:
        experiment=of_paper("layernorm"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        scopes=["individual"],
        references=[],
        style=CONFIG.style("figure2").model_dump(),
    script:
        "../scripts/score_by_fraction.py"


rule figure3:
    input:
        rules.information.output.layernorm,
    output:
        drawn("figure3", "layernorm_figure3"),
    log:
        results("logs/{experiment}/figure3.log"),
    wildcard_constraints:
        experiment=of_paper("layernorm"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure3").model_dump(),
    script:
        "../scripts/figure3.py"


rule figure4:
    input:
        rules.information.output.layernorm,
    output:
        drawn("figure4", "layernorm_figure4"),
    log:
        results("logs/{experiment}/figure4.log"),
    wildcard_constraints:
        experiment=of_paper("layernorm"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        titles=lambda wildcards: titles_of(wildcards.experiment),
        style=CONFIG.style("figure4").model_dump(),
    script:
        "../scripts/figure4.py"


localrules:
    # Not inherited from figure2.
    figure5,


use rule figure2 as figure5 with:
    output:
        drawn("figure5", "layernorm_figure5"),
    log:
        results("logs/{experiment}/figure5.log"),
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
        scopes=["individual", "global", "cv"],
        references=["layernorm", "full"],
        style=CONFIG.style("figure5").model_dump(),
