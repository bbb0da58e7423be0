# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


rule ranking:
    input:
        lambda wildcards: [
            f"{RESULTS}/fisher/{fisher.key}.safetensors"
            for fisher in PLAN.rankings[wildcards.ranking].fishers
        ],
    output:
        RESULTS + "/masks/{ranking}.safetensors",
    params:
        of=lambda wildcards: list(PLAN.rankings[wildcards.ranking].of),
    log:
        RESULTS + "/logs/ranking/{ranking}.log",
    localrule: True
    script:
        "../scripts/ranking.py"
