# Rows of every task, and their token ids.


rule dataset:
    output:
        directory(PATHS.dataset("{dataset}")),
    log:
        PATHS.log("dataset", "{dataset}"),
    cache: True
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


rule tokens:
    input:
        rows=rows_of_tokens,
        model=model_of_tokens,
    output:
        directory(PATHS.tokens("{tokens}")),
    log:
        PATHS.log("tokens", "{tokens}"),
    cache: True
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
