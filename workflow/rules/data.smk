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
        "../../envs/cpu.yaml"
    resources:
        # Not among the params: no result depends on where downloads are kept.
        hub_cache=HUB_CACHE,
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
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.tokens_memory(wildcards.tokens, attempt)
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        max_length=lambda wildcards: PLAN.tokens[wildcards.tokens].max_length,
    script:
        "../scripts/tokens.py"
