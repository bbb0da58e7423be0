# Rows of every task, and their token ids.


def glue_dir(wildcards):
    is_read = PLAN.datasets[wildcards.dataset].source == "tsv"
    return CONFIG.glue_dir if is_read else None


def rows_spec(wildcards):
    return PLAN.datasets[wildcards.dataset].canonical()


def files_of_rows(wildcards):
    return PLAN.files.get(wildcards.dataset, {})


def directory_of_rows(wildcards):
    return PLAN.directories.get(wildcards.dataset)


rule dataset:
    output:
        directory(PATHS.dataset("{dataset}")),
    log:
        PATHS.log("dataset", "{dataset}"),
    benchmark:
        PATHS.benchmark("dataset", "{dataset}")
    priority: 1
    retries: DOWNLOAD_RETRIES if CONFIG.source == "hub" else 0
    localrule: True
    conda:
        CPU
    resources:
        # Not a parameter, because no result depends on where downloads are kept.
        hub_cache=CONFIG.hub_cache or PATHS.hub_cache(),
    params:
        spec=rows_spec,
        glue_dir=glue_dir,
        files=files_of_rows,
        directory=directory_of_rows,
    script:
        "../scripts/dataset.py"


def rows_of_tokens(wildcards):
    return PATHS.dataset(PLAN.tokens[wildcards.tokens].data.key)


def model_of_tokens(wildcards):
    return PATHS.model(PLAN.tokens[wildcards.tokens].tokenizer)


def tokens_spec(wildcards):
    return PLAN.tokens[wildcards.tokens].canonical()


def tokens_memory(wildcards, attempt):
    return ESTIMATES.tokens_memory(wildcards.tokens, attempt)


def tokens_minutes(wildcards, attempt):
    return 30 * attempt


rule tokens:
    input:
        rows=rows_of_tokens,
        model=model_of_tokens,
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
        mem_mb=tokens_memory,
        runtime=tokens_minutes,
    params:
        spec=tokens_spec,
    script:
        "../scripts/tokens.py"
