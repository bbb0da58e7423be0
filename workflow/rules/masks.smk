# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


rule ranking:
    input:
        lambda wildcards: [
            PATHS.fisher_entries(fisher.key)
            for fisher in PLAN.rankings[wildcards.ranking].fishers
        ],
    output:
        PATHS.ranking("{ranking}"),
    log:
        PATHS.log("ranking", "{ranking}"),
    localrule: True
    conda:
        CPU
    params:
        of=lambda wildcards: PLAN.rankings[wildcards.ranking].of.canonical(),
    script:
        "../scripts/ranking.py"
