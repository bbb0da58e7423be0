# Numbers behind the tables and figures, one CSV file each.


def planned_runs(name):
    """Return what the plan says of an experiment's runs, beside what their records say."""
    names = ("model", "task", "method", "fraction", "scope", "train_rows")
    return [
        {"run": planned.run.id, **{name: getattr(planned, name) for name in names}}
        for planned in PLAN.experiments[name]
    ]


def sweeps(wildcards):
    """Return the sweeps of the wildcards' experiment."""
    sweeps = PLAN.sweeps_of(wildcards.experiment)
    return [PATHS.sweep(sweep) for sweep in sweeps]


def runs_of_scores(wildcards):
    """Return the planned runs with learning rate and seed."""
    name = wildcards.experiment
    recipes = [
        {"learning_rate": planned.run.recipe.learning_rate, "seed": planned.run.seed}
        for planned in PLAN.experiments[name]
    ]
    return [run | recipe for run, recipe in zip(planned_runs(name), recipes)]


rule scores:
    input:
        sweeps,
    output:
        all=PATHS.data("{experiment}", "scores"),
        chosen=PATHS.data("{experiment}", "chosen"),
        sizes=PATHS.data("{experiment}", "sizes"),
    log:
        PATHS.log("{experiment}", "scores"),
    localrule: True
    conda:
        CPU
    params:
        runs=runs_of_scores,
        columns=columns,
        store=PATHS.records(),
    script:
        "../scripts/scores.py"


def runs_of_all_experiments(wildcards):
    """Return the planned runs with their experiment and their estimated operations."""
    return [
        {"run": run["run"], "experiment": name}
        | run
        | {"flops": ESTIMATES.run(run["run"]).flops}
        for name in CONFIG.experiments
        for run in planned_runs(name)
    ]


rule runs:
    input:
        [PATHS.sweep(sweep) for sweep in PLAN.sweeps],
    output:
        csv=PATHS.table_of_runs("csv"),
        parquet=PATHS.table_of_runs("parquet"),
        columns=PATHS.columns_of_runs(),
    log:
        PATHS.log("runs"),
    localrule: True
    conda:
        CPU
    params:
        planned=runs_of_all_experiments,
        store=PATHS.records(),
    script:
        "../scripts/runs.py"


def minutes_of_train_scores(wildcards, attempt):
    runs = scored_on_training_rows(wildcards.sweep)
    return ESTIMATES.minutes(ESTIMATES.train_scores(runs), attempt)


def specs_of_train_scores(wildcards):
    """Return the specs of a sweep's runs that are scored on their training rows."""
    runs = scored_on_training_rows(wildcards.sweep)
    return [PLAN.runs[run].canonical() for run in runs]


rule train_scores_of_sweep:
    input:
        sweep=PATHS.sweep("{sweep}"),
        tokens=tokens_of_sweep,
        model=model_of_sweep,
    output:
        PATHS.train_scores("{sweep}"),
    log:
        PATHS.log("train_scores", "{sweep}"),
    benchmark:
        PATHS.benchmark("train_scores", "{sweep}")
    conda:
        COMPUTES
    threads: 1
    resources:
        mem_mb=sweep_memory,
        runtime=minutes_of_train_scores,
        gpu=1,
    params:
        runs=specs_of_train_scores,
        store=PATHS.records(),
    script:
        "../scripts/train_scores_of_sweep.py"


def train_scores_of_sweeps(wildcards):
    """Return the train scores of the experiment's sweeps that have some."""
    sweeps = PLAN.sweeps_of(wildcards.experiment)
    return [PATHS.train_scores(s) for s in sweeps if scored_on_training_rows(s)]


rule train_scores:
    input:
        chosen=rules.scores.output.chosen,
        sweeps=train_scores_of_sweeps,
    output:
        PATHS.data("{experiment}", "train_scores"),
    log:
        PATHS.log("{experiment}", "train_scores"),
    localrule: True
    conda:
        CPU
    script:
        "../scripts/train_scores.py"


def scores_to_reproduce(wildcards):
    """Return the scores that stand beside printed ones, as far as the experiment has them."""
    names = ("chosen", "test_scores")
    return {
        name: PATHS.data(wildcards.experiment, name)
        for name in names
        if experiments.has_data(CONFIG, settings(wildcards), name)
    }


rule reproduction:
    input:
        unpack(scores_to_reproduce),
    output:
        PATHS.data("{experiment}", "reproduction"),
    log:
        PATHS.log("{experiment}", "reproduction"),
    localrule: True
    conda:
        CPU
    params:
        paper=paper,
        printed=printed_version,
    script:
        "../scripts/reproduction.py"


rule learning_curves:
    input:
        rules.scores.output.all,
    output:
        PATHS.data("{experiment}", "learning_curves"),
    log:
        PATHS.log("{experiment}", "learning_curves"),
    localrule: True
    conda:
        CPU
    params:
        store=PATHS.records(),
    script:
        "../scripts/learning_curves.py"


def data_of_claims(wildcards):
    """Return the data that the experiment's claims read."""
    names = experiments.data_of_claims(CONFIG, settings(wildcards))
    return {name: PATHS.data(wildcards.experiment, name) for name in names}


def declared_claims(wildcards):
    """Return the experiment's claims as plain values."""
    own = settings(wildcards)
    claims = experiments.claims_on(experiments.paper_of(own), own.tasks)
    return [claim.declaration() for claim in claims]


def tasks(wildcards):
    return list(settings(wildcards).tasks)


def train_rows(wildcards):
    """Return the most rows that each of the experiment's tasks trains on."""
    runs = PLAN.on_most_rows(wildcards.experiment)
    return {planned.task: planned.train_rows for planned in runs}


rule claims:
    input:
        unpack(data_of_claims),
    output:
        PATHS.data("{experiment}", "claims"),
    log:
        PATHS.log("{experiment}", "claims"),
    localrule: True
    conda:
        CPU
    params:
        paper=paper,
        tasks=tasks,
        claims=declared_claims,
        train_rows=train_rows,
        printed=printed_version,
    script:
        "../scripts/claims.py"


def parameters_drawn(wildcards):
    return experiments.parameters_drawn(CONFIG, settings(wildcards))


rule parameter_changes:
    input:
        rules.scores.output.chosen,
    output:
        PATHS.data("{experiment}", "parameter_changes"),
    log:
        PATHS.log("{experiment}", "parameter_changes"),
    localrule: True
    conda:
        CPU
    params:
        drawn=parameters_drawn,
        store=PATHS.records(),
    script:
        "../scripts/parameter_changes.py"


rule changes:
    input:
        rules.scores.output.chosen,
    output:
        PATHS.data("{experiment}", "changes"),
    log:
        PATHS.log("{experiment}", "changes"),
    localrule: True
    conda:
        CPU
    params:
        store=PATHS.records(),
    script:
        "../scripts/changes.py"


def fisher_sums(wildcards):
    """Return the experiment's sums of Fisher information, one file per task."""
    fishers = PLAN.experiment_fishers[wildcards.experiment]
    return [PATHS.fisher_sums(fisher.key) for fisher in fishers.values()]


rule information:
    input:
        fisher_sums,
    output:
        layers=PATHS.data("{experiment}", "layernorm_information"),
        layers_of_all_tasks=PATHS.data("{experiment}", "global_layernorm_information"),
        shares=PATHS.data("{experiment}", "component_shares"),
    log:
        PATHS.log("{experiment}", "information"),
    localrule: True
    conda:
        CPU
    params:
        tasks=tasks,
    script:
        "../scripts/information.py"
