# Rows of every task, and their token ids.


rule dataset:
    output:
        directory(results("datasets/{dataset}")),
    log:
        results("logs/dataset/{dataset}.log"),
    benchmark:
        results("benchmarks/dataset/{dataset}.tsv")
    priority: 1
    localrule: True
    conda:
        "../../envs/subtune.yaml"
    params:
        spec=lambda wildcards: PLAN.datasets[wildcards.dataset].canonical(),
        glue_dir=lambda wildcards: (
            CONFIG.glue_dir
            if PLAN.datasets[wildcards.dataset].source == "tsv"
            else None
        ),
        files=lambda wildcards: (
            CONFIG.tasks[PLAN.datasets[wildcards.dataset].task.name].files
            if PLAN.datasets[wildcards.dataset].source == "files"
            else None
        ),
    script:
        "../scripts/dataset.py"


rule tokens:
    input:
        rows=lambda wildcards: (
            results(f"datasets/{PLAN.tokens[wildcards.tokens].data.key}")
        ),
        model=lambda wildcards: results(
            f"models/{PLAN.tokens[wildcards.tokens].tokenizer}"
        ),
    output:
        directory(results("tokens/{tokens}")),
    log:
        results("logs/tokens/{tokens}.log"),
    benchmark:
        results("benchmarks/tokens/{tokens}.tsv")
    priority: 1
    conda:
        "../../envs/subtune.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        max_length=lambda wildcards: PLAN.tokens[wildcards.tokens].max_length,
    script:
        "../scripts/tokens.py"
