# One page with every table, figure, cost and origin, that opens without a network.


def in_page(exhibit, files):
    """Return what the report shows of a table or figure."""
    return {
        "name": exhibit.name,
        "title": exhibit.title,
        "caption": exhibit.caption,
        "files": files,
    }


def answer(wildcards):
    """Return the tables and figures of all experiments, unless there is only one."""
    if len(CONFIG.experiments) == 1:
        return []
    return [in_page(e, files_of_all_experiments(e)) for e in SUMMARIES]


def sections(wildcards):
    """Return the experiments, with their tables and figures in order."""
    return [
        {
            "name": name,
            "paper": experiments.paper_of(CONFIG.experiments[name]).citation,
            "exhibits": [in_page(e, files_of(name, e)) for e in exhibits.values()],
            "scores": PATHS.data(name, "scores"),
            "curves": PATHS.data(name, "learning_curves"),
        }
        for name, exhibits in EXHIBITS.items()
    ]


def files_in_report(wildcards):
    """Return every file that the report shows or reads."""
    parts = sections(wildcards)
    shown = [*answer(wildcards), *(e for part in parts for e in part["exhibits"])]
    files = [path for exhibit in shown for path in exhibit["files"]]
    files += [part[name] for part in parts for name in ("scores", "curves")]
    return list(dict.fromkeys(files))


rule report_page:
    input:
        runs=rules.runs.output.parquet,
        files=files_in_report,
    output:
        PATHS.report(),
    log:
        PATHS.log("report"),
    localrule: True
    conda:
        CPU
    params:
        answer=answer,
        sections=sections,
        config=CONFIG.model_dump(mode="json", exclude_defaults=True),
    script:
        "../scripts/report_page.py"
