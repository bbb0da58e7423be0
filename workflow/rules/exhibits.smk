# Tables, as CSV, Markdown and LaTeX, and figures, as PNG and PDF. Each one's declaration is its own
# parameter, so that a change remakes that one only.


rule table:
    input:
        unpack(data_files),
    output:
        shown("csv"),
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
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(data_files),
    output:
        [shown(ending) for ending in layout.FIGURE_ENDINGS],
    log:
        PATHS.log("{experiment}", "figures", "{exhibit}"),
    wildcard_constraints:
        experiment=with_its(Figure),
    localrule: True
    conda:
        CPU
    params:
        declaration=declaration,
    script:
        "../scripts/figure.py"


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
        task_titles=titles_of_all_tasks,
        style=CONFIG.style(FRONT.style_name).model_dump(),
    script:
        "../scripts/summary.py"
