# Sweeps: one job trains many runs and leaves a record of each in the run store.
# Records and checkpoints are not outputs, because Snakemake would delete them. An interrupted job keeps
# its finished runs and continues with the others. A sweep with a new learning rate trains only
# the runs of this rate.


# A search for the learning rate of all seeds and folds of a method.
rule search:
    input:
        tokens=lambda w: PATHS.tokens(PLAN.searches[w.search].run.tokens.key),
        model=lambda w: PATHS.model(PLAN.searches[w.search].run.model.id),
        rankings=lambda w: [
            PATHS.ranking(id)
            for id in [PLAN.searches[w.search].run.selection.ranking]
            if id
        ],
    output:
        PATHS.search("{search}"),
    log:
        PATHS.log("search", "{search}"),
    benchmark:
        PATHS.benchmark("search", "{search}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda w, attempt: ESTIMATES.memory(PLAN.searches[w.search].run, attempt),
        runtime=lambda w, attempt: ESTIMATES.minutes(
            ESTIMATES.search(w.search), attempt
        ),
        gpu=1,
        runs_at_once=CONFIG.runs_at_once or 0,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        spec=lambda w: PLAN.searches[w.search].canonical(),
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("search-{search}"),
    script:
        "../scripts/search.py"


rule train:
    input:
        tokens=lambda w: PATHS.tokens(PLAN.first_run(w.sweep).tokens.key),
        model=lambda w: PATHS.model(PLAN.first_run(w.sweep).model.id),
        rankings=lambda w: [PATHS.ranking(id) for id in PLAN.rankings_of(w.sweep)],
        searches=lambda w: [*map(PATHS.search, PLAN.searches_of(w.sweep))],
        # `subtune verify --repair` writes these files; the sweep is then older than an input and runs again.
        repairs=lambda w: repairs(w.sweep),
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
        mem_mb=lambda w, attempt: ESTIMATES.memory(PLAN.first_run(w.sweep), attempt),
        runtime=lambda w, attempt: ESTIMATES.minutes(ESTIMATES.sweep(w.sweep), attempt),
        gpu=1,
        # Not parameters, because no result depends on them.
        runs_at_once=CONFIG.runs_at_once or 0,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        planned=lambda w: [
            PLAN.runs[run].canonical() for run in PLAN.sweeps[w.sweep].runs
        ],
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("{sweep}"),
    script:
        "../scripts/train.py"


# A cross-validated method, trained again on all rows; this rule runs only for `subtune export`.
rule refit:
    input:
        chosen=PATHS.data("{experiment}", "chosen"),
        tokens=lambda w: PATHS.tokens(PLAN.first_run(sweep_to_refit(w)).tokens.key),
        model=lambda w: PATHS.model(PLAN.first_run(sweep_to_refit(w)).model.id),
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
        mem_mb=lambda w, attempt: ESTIMATES.memory(
            PLAN.first_run(sweep_to_refit(w)), attempt
        ),
        # A sweep takes longer than one of its runs on all rows.
        runtime=lambda w, attempt: ESTIMATES.minutes(
            ESTIMATES.sweep(sweep_to_refit(w)), attempt
        ),
        gpu=1,
        checkpoint_minutes=CONFIG.checkpoint_minutes,
    params:
        store=PATHS.records(),
        checkpoints=PATHS.checkpoints("refit-{experiment}-{encoder}-{task}-{method}"),
    script:
        "../scripts/refit.py"
