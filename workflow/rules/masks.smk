# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


def fishers_of_ranking(wildcards):
    fishers = PLAN.rankings[wildcards.ranking].fishers
    return [PATHS.fisher_entries(fisher.key) for fisher in fishers]


def ranked_selection(wildcards):
    return PLAN.rankings[wildcards.ranking].of.canonical()


rule ranking:
    input:
        fishers_of_ranking,
    output:
        PATHS.ranking("{ranking}"),
    log:
        PATHS.log("ranking", "{ranking}"),
    localrule: True
    conda:
        CPU
    params:
        of=ranked_selection,
    script:
        "../scripts/ranking.py"
