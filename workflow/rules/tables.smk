# Tables, each as CSV, Markdown and LaTeX. A name that papers share has a rule for each paper.


rule table1:
    input:
        rules.information.output.components,
    output:
        written("table1", "layernorm_table1"),
    log:
        results("logs/{experiment}/table1.log"),
    wildcard_constraints:
        experiment=of_paper("layernorm"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/table1.py"


for paper in exhibits.COMPARISONS:

    rule:
        name:
            f"comparison_{paper}"
        input:
            lambda wildcards: results(
                "{experiment}/data/"
                + ("test_scores.csv" if shows_test_scores(wildcards) else "chosen.csv")
            ),
        output:
            written("{exhibit}", "comparison"),
        log:
            results("logs/{experiment}/{exhibit}.log"),
        wildcard_constraints:
            experiment=of_paper(paper),
            exhibit="|".join(
                [*exhibits.COMPARISONS[paper], *exhibits.TEST_SCORES.get(paper, {})]
            ),
        localrule: True
        conda:
            "../../envs/cpu.yaml"
        params:
            tasks=lambda wildcards: tasks_of(wildcards.experiment),
            paper=lambda wildcards: paper_of(wildcards.experiment),
            printed=lambda wildcards: exhibits.printed(
                paper_of(wildcards.experiment), wildcards.exhibit
            ),
            split=lambda wildcards: "test" if shows_test_scores(wildcards) else "",
            data=lambda wildcards: (
                "test set" if shows_test_scores(wildcards) else f"{CONFIG.source} data"
            ),
        script:
            "../scripts/comparison.py"


rule choices:
    input:
        rules.scores.output.chosen,
    output:
        written("choices", "choices"),
    log:
        results("logs/{experiment}/choices.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/choices.py"


rule claims_table:
    input:
        rules.claims.output[0],
    output:
        written("claims", "claims"),
    log:
        results("logs/{experiment}/claims_table.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/claims_table.py"


rule paired_tests:
    input:
        rules.scores.output.chosen,
    output:
        written("paired_tests", "paired_tests"),
    log:
        results("logs/{experiment}/paired_tests.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/paired_tests.py"


rule best_learning_rates:
    input:
        rules.scores.output.chosen,
    output:
        written("table6", "bitfit_table6"),
    log:
        results("logs/{experiment}/table6.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/table6.py"


rule generalisation_gap:
    input:
        rules.train_scores.output[0],
    output:
        written("generalisation_gap", "bitfit_generalisation_gap"),
    log:
        results("logs/{experiment}/generalisation_gap.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/generalisation_gap.py"


rule repeat_variance:
    input:
        rules.scores.output.chosen,
    output:
        written("repeat_variance", "bitfit_plus_repeat_variance"),
    log:
        results("logs/{experiment}/repeat_variance.log"),
    wildcard_constraints:
        experiment=of_paper("bitfit_plus"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/repeat_variance.py"


rule methods_and_counts:
    input:
        lambda wildcards: [
            results(f"models/{PLAN.model_ids[model]}")
            for model in CONFIG.experiments[wildcards.experiment].models
        ],
    output:
        written("table1", "spafit_table1"),
    log:
        results("logs/{experiment}/table1.log"),
    wildcard_constraints:
        experiment=of_paper("spafit"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        models=lambda wildcards: list(CONFIG.experiments[wildcards.experiment].models),
        methods=lambda wildcards: {
            method: CONFIG.selection(method).canonical()
            for method in CONFIG.experiments[wildcards.experiment].all_methods()
        },
        labels=3,
    script:
        "../scripts/methods_and_counts.py"


rule table4:
    output:
        written("table4", "layernorm_table4"),
    log:
        results("logs/{experiment}/table4.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        tasks=lambda wildcards: tasks_of(wildcards.experiment),
    script:
        "../scripts/table4.py"


rule kruskal_wallis:
    input:
        dev=rules.scores.output.chosen,
        test=results("{experiment}/data/test_scores.csv") if CONFIG.test_scores else [],
    output:
        written("kruskal_wallis", "layernorm_kruskal_wallis"),
    log:
        results("logs/{experiment}/kruskal_wallis.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    script:
        "../scripts/kruskal_wallis.py"
