# Test-set predictions of each method's chosen runs, as zip files for the GLUE server; and the scores
# that it returns, once they are entered.


rule test_predictions:
    input:
        chosen=results("{experiment}/data/chosen.csv"),
        tokens=lambda wildcards: results(f"tokens/{any_run_on(wildcards).tokens.key}"),
        model=lambda wildcards: results(f"models/{PLAN.model_ids[wildcards.encoder]}"),
    output:
        results("{experiment}/data/test/{encoder}/{task}.parquet"),
    log:
        results("logs/{experiment}/test_predictions/{encoder}/{task}.log"),
    benchmark:
        results("benchmarks/{experiment}/test_predictions/{encoder}/{task}.tsv")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            ESTIMATES.evaluation_memory(any_run_on(wildcards).id, attempt)
        ),
        runtime=lambda wildcards, attempt: ESTIMATES.minutes(
            ESTIMATES.test_predictions(runs_on(wildcards)), attempt
        ),
        gpu=1,
    params:
        store=results("runs"),
    script:
        "../scripts/test_predictions.py"


for experiment, settings in CONFIG.experiments.items():

    rule:
        name:
            f"submissions_{experiment}"
        input:
            chosen=results(f"{experiment}/data/chosen.csv"),
            predicted=[
                path
                for model in settings.models
                for path in predicted(experiment, model).values()
            ],
        output:
            zips=[
                results(f"{experiment}/submission/{name}.zip")
                for name in submissions(CONFIG, settings)
            ],
            contents=[
                shown(
                    results(f"{experiment}/submission/contents.csv"),
                    "submission_contents",
                    experiment,
                ),
                *(
                    results(f"{experiment}/submission/contents.{ending}")
                    for ending in TABLE_ENDINGS[1:]
                ),
            ],
            form=results(f"{experiment}/submission/form.csv"),
        log:
            results(f"logs/{experiment}/submissions.log"),
        localrule: True
        conda:
            "../../envs/cpu.yaml"
        params:
            submissions=[
                {"name": name, "model": model, "method": method}
                | {"predicted": predicted(experiment, model)}
                for name, (model, method) in submissions(CONFIG, settings).items()
            ],
            form=FORMS[experiment].to_dict("records"),
        script:
            "../scripts/submissions.py"


rule test_scores:
    input:
        chosen=results("{experiment}/data/chosen.csv"),
        entered=CONFIG.test_scores or [],
    output:
        results("{experiment}/data/test_scores.csv"),
    log:
        results("logs/{experiment}/test_scores.log"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    params:
        forms=[row for form in FORMS.values() for row in form.to_dict("records")],
    script:
        "../scripts/test_scores.py"
