# What can be asked for: `all`, or one paper by name.
# The configuration is config.yaml, unless a profile or --configfile brings another.

from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


if "experiments" not in config:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/fisher.smk"
include: "workflow/rules/masks.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/submission.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


if CONFIG.container:

    container: CONFIG.container


localrules:
    all,


rule all:
    default_target: True
    input:
        [exhibits_of(experiment) for experiment in CONFIG.experiments],
        results("report.html"),
        results("runs.csv"),


for paper in CONFIG.experiments:

    rule:
        name:
            paper
        input:
            exhibits_of(paper),
        localrule: True
