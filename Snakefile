# Targets: `all`, or one experiment by its name.
# The configuration is config.yaml, unless a profile or --configfile names another. --config adds to it.

from snakemake.utils import min_version

min_version("9.27")


# If this is a module, the other workflow passes its configuration.
if workflow.modifier.is_main_snakefile():

    include: "workflow/rules/profiles.smk"

    if "experiments" not in config | GIVEN_SETTINGS:
        for path in CONFIGURATION_FILES:

            configfile: path

    update_config(config, GIVEN_SETTINGS)


include: "workflow/rules/common.smk"
include: "workflow/rules/inputs.smk"
include: "workflow/rules/fisher.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/submission.smk"
include: "workflow/rules/exhibits.smk"


if SETTINGS["container"]:

    container: SETTINGS["container"]


rule all:
    default_target: True
    input:
        PLAN.list_outputs("exhibits", "submission", "summary", "runs", "report_page"),
    localrule: True


for experiment in EXPERIMENTS:
    require_no_rule(experiment)

    rule:
        name:
            experiment
        input:
            PLAN.list_outputs("exhibits", "submission", id=experiment),
        localrule: True


onstart:
    # No comparison can start in these results until this call ends, even while no job runs.
    with show_errors():
        keep_comparisons_away(PATHS.results)


onsuccess:
    EVENTS.print_answers(PATHS, PLAN.job("report_page/report").spec["papers"])


onerror:
    EVENTS.print_failures()
