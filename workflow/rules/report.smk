# One page with all tables, figures, costs and origins, which opens without a network.


# With a single experiment, there are no tables and figures over all experiments.
ALL_EXHIBITS = [
    in_page(exhibit, files_of_all_experiments(exhibit))
    for exhibit in (SUMMARIES if len(CONFIG.experiments) > 1 else ())
]
SECTIONS = [
    {
        "name": name,
        "paper": experiments.paper_of(CONFIG.experiments[name]).citation,
        "exhibits": [in_page(e, files_of(name, e)) for e in exhibits.values()],
        "scores": PATHS.data(name, "scores"),
        "curves": PATHS.data(name, "learning_curves"),
    }
    for name, exhibits in EXHIBITS.items()
]


rule report_page:
    input:
        runs=rules.runs.output.parquet,
        files=[
            path
            for section in [{"exhibits": ALL_EXHIBITS}, *SECTIONS]
            for exhibit in section["exhibits"]
            for path in exhibit["files"]
        ],
        tables=[section[name] for section in SECTIONS for name in ("scores", "curves")],
    output:
        PATHS.report(),
    log:
        PATHS.log("report"),
    localrule: True
    conda:
        CPU
    params:
        answer=ALL_EXHIBITS,
        sections=SECTIONS,
        config=CONFIG.model_dump(mode="json", exclude_defaults=True),
    script:
        "../scripts/report_page.py"
