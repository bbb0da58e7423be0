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
        spec=lambda w: PLAN.datasets[w.dataset].canonical(),
        glue_dir=lambda w: (
            CONFIG.glue_dir if PLAN.datasets[w.dataset].source == "tsv" else None
        ),
        files=own_files,
        directory=lambda w: CONFIG.directories.get(PLAN.datasets[w.dataset].task.name),
    script:
        "../scripts/dataset.py"


rule tokens:
    input:
        rows=lambda w: PATHS.dataset(PLAN.tokens[w.tokens].data.key),
        model=lambda w: PATHS.model(PLAN.tokens[w.tokens].tokenizer),
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
        mem_mb=lambda w, attempt: ESTIMATES.tokens_memory(w.tokens, attempt),
        runtime=lambda w, attempt: 30 * attempt,
    params:
        spec=lambda w: PLAN.tokens[w.tokens].canonical(),
    script:
        "../scripts/tokens.py"
