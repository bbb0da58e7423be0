# Sweeps: one job trains many runs and leaves a record of each in the run store.
#
# Records and checkpoints are not outputs, because Snakemake would delete them. A job that is cut off
# keeps the runs that are done and goes on with the others. A sweep with one more learning rate trains
# that one only.


rule train:
    input:
        tokens=tokens_of_sweep,
        model=model_of_sweep,
        rankings=rankings_of_sweep,
        repairs=repairs_of_sweep,
    output:
        PATHS.sweep("{sweep}"),
    log:
        PATHS.log("train", "{sweep}"),
    benchmark:
        PATHS.benchmark("train", "{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=sweep_memory,
        runtime=sweep_minutes,
        gpu=1,
        # Not parameters, because no result depends on them.
        runs_at_once=CONFIG.runs_at_once or 0,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        runs=runs_of_sweep,
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("{sweep}"),
    script:
        "../scripts/train.py"


# What cross-validation has chosen, on all rows: only made when `subtune export` asks for it.
rule refit:
    input:
        chosen=PATHS.data("{experiment}", "chosen"),
        tokens=tokens_of_refit,
        model=model_of_refit,
    output:
        PATHS.refit("{experiment}", "{encoder}", "{task}", "{method}"),
    log:
        PATHS.log("{experiment}", "refit", "{encoder}", "{task}", "{method}"),
    benchmark:
        PATHS.benchmark("{experiment}", "refit", "{encoder}", "{task}", "{method}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=refit_memory,
        runtime=refit_minutes,
        gpu=1,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("refit-{experiment}-{encoder}-{task}-{method}"),
    script:
        "../scripts/refit.py"
