# Numbers of the recorded runs, one CSV file each.


rule scores:
    input:
        sweeps=lambda w: [PATHS.sweep(sweep) for sweep in PLAN.sweeps_of(w.experiment)],
        searches=lambda w: [
            *map(PATHS.search, PLAN.searches_of(*PLAN.sweeps_of(w.experiment)))
        ],
    output:
        all=PATHS.data("{experiment}", "scores"),
        chosen=PATHS.data("{experiment}", "chosen"),
        row_scores=PATHS.data("{experiment}", "row_scores"),
        sizes=PATHS.data("{experiment}", "sizes"),
        learning_curves=PATHS.data("{experiment}", "learning_curves"),
        changes=PATHS.data("{experiment}", "changes"),
        parameter_changes=PATHS.data("{experiment}", "parameter_changes"),
    log:
        PATHS.log("{experiment}", "scores"),
    localrule: True
    conda:
        CPU
    params:
        planned=lambda w: [
            planned.facts | {"partition": planned.partition}
            for planned in PLAN.experiments[w.experiment]
        ],
        columns=lambda w: experiments.score_columns(
            CONFIG, CONFIG.experiments[w.experiment]
        ),
        paper=lambda w: CONFIG.experiments[w.experiment].paper or "",
        store=PATHS.records(),
        margin=lambda w: CONFIG.experiments[w.experiment].margin,
        drawn=lambda w: experiments.parameters_drawn(
            CONFIG, CONFIG.experiments[w.experiment]
        ),
    script:
        "../scripts/scores.py"


rule runs:
    input:
        sweeps=[PATHS.sweep(sweep) for sweep in PLAN.sweeps],
        searches=[PATHS.search(search) for search in PLAN.searches],
    output:
        csv=PATHS.table_of_runs("csv"),
        parquet=PATHS.table_of_runs("parquet"),
        columns=PATHS.columns_of_runs(),
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        # Estimates take a while, so they are computed when the job is created.
        planned=lambda w: [
            planned.facts
            | {"experiment": name, "flops": ESTIMATES.run(planned.key).flops}
            for name, runs in PLAN.experiments.items()
            for planned in runs
        ],
        store=lambda w: PATHS.records(),
    script:
        "../scripts/runs.py"


rule train_scores_of_sweep:
    input:
        sweep=PATHS.sweep("{sweep}"),
        tokens=lambda w: PATHS.tokens(PLAN.first_run(w.sweep).tokens.key),
        model=lambda w: PATHS.model(PLAN.first_run(w.sweep).model.id),
    output:
        PATHS.train_scores("{sweep}"),
    log:
        PATHS.log("train_scores", "{sweep}"),
    benchmark:
        PATHS.benchmark("train_scores", "{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda w, attempt: ESTIMATES.memory(PLAN.first_run(w.sweep), attempt),
        runtime=lambda w, attempt: ESTIMATES.minutes(
            ESTIMATES.train_scores(scored_on_training_rows(w.sweep)), attempt
        ),
        gpu=1,
    params:
        planned=lambda w: scored_on_training_rows(w.sweep),
        store=PATHS.records(),
    script:
        "../scripts/train_scores_of_sweep.py"
