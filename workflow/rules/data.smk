# Rows of every task, and their token ids.


rule dataset:
    output:
        directory(PATHS.dataset("{dataset}")),
    log:
        PATHS.log("dataset", "{dataset}"),
    benchmark:
        PATHS.benchmark("dataset", "{dataset}")
    priority: 1
    localrule: True
    conda:
        CPU
    resources:
        # Not among the params: no result depends on where downloads are kept.
        hub_cache=CONFIG.hub_cache or PATHS.hub_cache(),
    params:
        spec=lambda wildcards: PLAN.datasets[wildcards.dataset].canonical(),
        glue_dir=lambda wildcards: (
            CONFIG.glue_dir
            if PLAN.datasets[wildcards.dataset].source == "tsv"
            else None
        ),
        files=lambda wildcards: PLAN.files.get(wildcards.dataset, {}),
        directory=lambda wildcards: PLAN.directories.get(wildcards.dataset),
    script:
        "../scripts/dataset.py"


rule tokens:
    input:
        rows=lambda wildcards: PATHS.dataset(PLAN.tokens[wildcards.tokens].data.key),
        model=lambda wildcards: PATHS.model(PLAN.tokens[wildcards.tokens].tokenizer),
    output:
        directory(PATHS.tokens("{tokens}")),
    log:
        PATHS.log("tokens", "{tokens}"),
    benchmark:
        PATHS.benchmark("tokens", "{tokens}")
    priority: 1
    conda:
        CPU
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.tokens_memory(wildcards.tokens, attempt)
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        spec=lambda wildcards: PLAN.tokens[wildcards.tokens].canonical(),
    script:
        "../scripts/tokens.py"
