# Tables, as CSV, Markdown and LaTeX, and figures, as PNG and PDF, made as the papers declare them.
# What decides one is its own parameter, so that a change remakes that one only.


rule table:
    input:
        unpack(data_files),
    output:
        shown(PATHS.exhibit("{experiment}", "{exhibit}", "csv")),
        PATHS.exhibit("{experiment}", "{exhibit}", "md"),
        PATHS.exhibit("{experiment}", "{exhibit}", "tex"),
    log:
        PATHS.log("{experiment}", "tables", "{exhibit}"),
    wildcard_constraints:
        experiment=with_its(Table),
    localrule: True
    conda:
        CPU
    params:
        declaration=declaration,
        data=data_names,
        facts=facts_of,
        left_out=left_out,
        caption=caption,
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(data_files),
    output:
        shown(
            [
                PATHS.exhibit("{experiment}", "{exhibit}", ending)
                for ending in layout.FIGURE_ENDINGS
            ]
        ),
    log:
        PATHS.log("{experiment}", "figures", "{exhibit}"),
    wildcard_constraints:
        experiment=with_its(Figure),
    localrule: True
    conda:
        CPU
    params:
        declaration=declaration,
        data=data_names,
        facts=facts_of,
        left_out=left_out,
        caption=caption,
        style=style,
    script:
        "../scripts/figure.py"


rule summary:
    input:
        [PATHS.data(name, "chosen") for name in CONFIG.experiments],
    output:
        answers=files_of_all_experiments(ANSWERS),
        summary=files_of_all_experiments(SUMMARY),
        front=files_of_all_experiments(FRONT),
    log:
        PATHS.log("summary"),
    localrule: True
    conda:
        CPU
    params:
        task_titles=lambda wildcards: {
            task: title
            for experiment in CONFIG.experiments.values()
            for task, title in facts.taken(["task_titles"], CONFIG, experiment)[
                "task_titles"
            ].items()
        },
        style=CONFIG.style(FRONT.style_name).model_dump(),
    script:
        "../scripts/summary.py"
