# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


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
