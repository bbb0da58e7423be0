# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


rule ranking:
    input:
        lambda w: [
            PATHS.fisher_entries(fisher.key)
            for fisher in PLAN.rankings[w.ranking].fishers
        ],
    output:
        PATHS.ranking("{ranking}"),
    log:
        PATHS.log("ranking", "{ranking}"),
    localrule: True
    conda:
        CPU
    params:
        of=lambda w: PLAN.rankings[w.ranking].of.canonical(),
    script:
        "../scripts/ranking.py"
