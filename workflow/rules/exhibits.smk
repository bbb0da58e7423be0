# Tables, as CSV, Markdown and LaTeX, and figures, as PNG and PDF. One job makes all of an experiment,
# because most of the time is the start of Python and its libraries.


for name, experiment in CONFIG.experiments.items():

    rule:
        name:
            f"exhibits_{name}"
        input:
            **{
                table: PATHS.data(name, table)
                for table in experiments.tables_read(CONFIG, experiment)
            },
            fisher_sums=[
                PATHS.fisher_sums(fisher.key)
                for fisher in PLAN.experiment_fishers[name].values()
                if experiments.paper_of(experiment).shows_information()
            ],
            scored=[
                PATHS.train_scores(sweep)
                for sweep in PLAN.sweeps_of(name)
                if scored_on_training_rows(sweep)
            ],
            models=[PATHS.model(PLAN.model_ids[model]) for model in experiment.models],
        output:
            **{
                exhibit.name: shown(name, exhibit)
                for exhibit in EXHIBITS[name].values()
                if exhibit is not SUBMISSION
            },
            numbers=[
                PATHS.data(name, table)
                for table in experiments.tables_made(experiment)
            ],
        log:
            PATHS.log(name, "exhibits"),
        localrule: True
        conda:
            CPU
        params:
            about=experiments.about(CONFIG, PLAN, name),
        script:
            "../scripts/exhibits.py"


rule summary:
    input:
        chosen=[PATHS.data(name, "chosen") for name in CONFIG.experiments],
        row_scores=[PATHS.data(name, "row_scores") for name in CONFIG.experiments],
    output:
        answers=shown_first(ANSWERS),
        summary=shown_first(SUMMARY),
        front=shown_first(FRONT),
    log:
        PATHS.log("summary"),
    localrule: True
    conda:
        CPU
    params:
        tasks=lambda w: {
            name: {
                "title": CONFIG.all_tasks()[name].title,
                "metrics": CONFIG.all_tasks()[name].metric_titles(),
            }
            for experiment in CONFIG.experiments.values()
            for name in experiment.tasks
        },
        style=CONFIG.style(FRONT.style_name).model_dump(),
    script:
        "../scripts/summary.py"
