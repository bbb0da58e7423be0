# Entries ranked by Fisher information: the first ⌈f·n⌉ of a ranking are the mask of fraction f.


rule ranking:
    input:
        lambda wildcards: [
            results(f"fisher/{fisher.key}.safetensors")
            for fisher in PLAN.rankings[wildcards.ranking].fishers
        ],
    output:
        results("masks/{ranking}.safetensors"),
    log:
        results("logs/ranking/{ranking}.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        of=lambda wildcards: PLAN.rankings[wildcards.ranking].of.canonical(),
    script:
        "../scripts/ranking.py"
