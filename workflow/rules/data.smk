# Rows of every task, and their token ids.


rule dataset:
    output:
        directory(RESULTS + "/datasets/{dataset}"),
    params:
        spec=lambda wildcards: PLAN.datasets[wildcards.dataset].canonical(),
        glue_dir=lambda wildcards: (
            CONFIG.glue_dir if PLAN.datasets[wildcards.dataset].source == "tsv" else None
        ),
        files=lambda wildcards: (
            CONFIG.tasks[PLAN.datasets[wildcards.dataset].task.name].files
            if PLAN.datasets[wildcards.dataset].source == "files"
            else None
        ),
    log:
        RESULTS + "/logs/dataset/{dataset}.log",
    benchmark:
        RESULTS + "/benchmarks/dataset/{dataset}.tsv"
    localrule: True
    script:
        "../scripts/dataset.py"


rule tokens:
    input:
        rows=lambda wildcards: (
            f"{RESULTS}/datasets/{PLAN.tokens[wildcards.tokens].data.key}"
        ),
        model=lambda wildcards: f"{RESULTS}/models/{PLAN.tokens[wildcards.tokens].tokenizer}",
    output:
        directory(RESULTS + "/tokens/{tokens}"),
    params:
        max_length=lambda wildcards: PLAN.tokens[wildcards.tokens].max_length,
    log:
        RESULTS + "/logs/tokens/{tokens}.log",
    benchmark:
        RESULTS + "/benchmarks/tokens/{tokens}.tsv"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    script:
        "../scripts/tokens.py"
