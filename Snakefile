# What can be asked for: `all`, or one experiment by name.
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
include: "workflow/rules/exhibits.smk"
include: "workflow/rules/report.smk"


if CONFIG.container:

    container: CONFIG.container


localrules:
    all,


rule all:
    default_target: True
    input:
        [files_of_all_experiments(exhibit) for exhibit in SUMMARIES],
        [files_of_experiment(name) for name in CONFIG.experiments],
        PATHS.report(),
        PATHS.table_of_runs("csv"),


for experiment in CONFIG.experiments:
    require_no_rule(experiment)

    rule:
        name:
            experiment
        input:
            files_of_experiment(experiment),
        localrule: True


onstart:
    start_saying_progress()


onsuccess:
    written = {
        str(path) for job in workflow.persistence.dag.jobs for path in job.output
    }
    print_answers(written)


onerror:
    print_failures()
