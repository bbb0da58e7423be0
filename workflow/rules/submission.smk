# Zip files for the GLUE server, with predictions of each method's chosen runs on the test rows, and the
# server's scores, once the user has entered them.


rule test_predictions:
    input:
        chosen=PATHS.data("{experiment}", "chosen"),
        tokens=lambda w: [
            PATHS.tokens(PLAN.tests[PLAN.runs[run].run.tokens.key].key)
            for run in first_tested(w)
        ],
        model=lambda w: PATHS.model(PLAN.model_ids[w.encoder]),
    output:
        PATHS.test_predictions("{experiment}", "{encoder}"),
    log:
        PATHS.log("{experiment}", "test_predictions", "{encoder}"),
    benchmark:
        PATHS.benchmark("{experiment}", "test_predictions", "{encoder}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda w, attempt: max(
            ESTIMATES.memory(PLAN.runs[run].run, attempt) for run in first_tested(w)
        ),
        runtime=lambda w, attempt: ESTIMATES.minutes(
            ESTIMATES.test_predictions(chain(*runs_tested(w).values())), attempt
        ),
        gpu=1,
    params:
        store=PATHS.records(),
        tasks=lambda w: [*runs_tested(w)],
    script:
        "../scripts/test_predictions.py"


for name, experiment in CONFIG.experiments.items():
    if not submissions(CONFIG, experiment):
        continue

    rule:
        name:
            f"_submissions_{name}"
        input:
            chosen=PATHS.data(name, "chosen"),
            predicted=[
                PATHS.test_predictions(name, model) for model in experiment.models
            ],
        output:
            zips=[
                PATHS.submission(name, submission)
                for submission in submissions(CONFIG, experiment)
            ],
            contents=shown(name, SUBMISSION),
            form=PATHS.exhibit(name, "submission/form", "csv"),
        log:
            PATHS.log(name, "submissions"),
        localrule: True
        conda:
            CPU
        params:
            submissions=[
                {"name": submission, "model": model, "method": method}
                | {"predicted": PATHS.test_predictions(name, model)}
                for submission, (model, method) in submissions(
                    CONFIG, experiment
                ).items()
            ],
            form=[row for row in FORMS if row["experiment"] == name],
        script:
            "../scripts/submissions.py"


rule test_scores:
    input:
        chosen=PATHS.data("{experiment}", "chosen"),
        entered=CONFIG.test_scores or [],
    output:
        PATHS.data("{experiment}", "test_scores"),
    log:
        PATHS.log("{experiment}", "test_scores"),
    localrule: True
    conda:
        CPU
    params:
        forms=FORMS,
        experiment=lambda w: w.experiment,
    script:
        "../scripts/test_scores.py"
