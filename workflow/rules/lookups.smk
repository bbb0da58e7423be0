# Lookups of rules: inputs, parameters and resources by their wildcards.


def glue_dir(wildcards):
    is_read = PLAN.datasets[wildcards.dataset].source == "tsv"
    return CONFIG.glue_dir if is_read else None


def rows_spec(wildcards):
    return PLAN.datasets[wildcards.dataset].canonical()


def files_of_rows(wildcards):
    return PLAN.files.get(wildcards.dataset, {})


def directory_of_rows(wildcards):
    return PLAN.directories.get(wildcards.dataset)


def rows_of_tokens(wildcards):
    return PATHS.dataset(PLAN.tokens[wildcards.tokens].data.key)


def model_of_tokens(wildcards):
    return PATHS.model(PLAN.tokens[wildcards.tokens].tokenizer)


def tokens_spec(wildcards):
    return PLAN.tokens[wildcards.tokens].canonical()


def tokens_memory(wildcards, attempt):
    return ESTIMATES.tokens_memory(wildcards.tokens, attempt)


def tokens_minutes(wildcards, attempt):
    return 30 * attempt


def model_spec(wildcards):
    return PLAN.models[wildcards.model].canonical()


def model_location(wildcards):
    return PLAN.model_locations[wildcards.model]


def tokens_of_fisher(wildcards):
    return PATHS.tokens(PLAN.fishers[wildcards.fisher].tokens.key)


def model_of_fisher(wildcards):
    return PATHS.model(PLAN.fishers[wildcards.fisher].model.id)


def fisher_spec(wildcards):
    return PLAN.fishers[wildcards.fisher].canonical()


def fisher_memory(wildcards, attempt):
    return ESTIMATES.fisher_memory(wildcards.fisher, attempt)


def fisher_minutes(wildcards, attempt):
    return ESTIMATES.minutes(ESTIMATES.fisher(wildcards.fisher), attempt)


def fishers_of_ranking(wildcards):
    fishers = PLAN.rankings[wildcards.ranking].fishers
    return [PATHS.fisher_entries(fisher.key) for fisher in fishers]


def ranked_selection(wildcards):
    return PLAN.rankings[wildcards.ranking].of.canonical()


def tokens_of_sweep(wildcards):
    return PATHS.tokens(PLAN.first_run(wildcards.sweep).tokens.key)


def model_of_sweep(wildcards):
    return PATHS.model(PLAN.first_run(wildcards.sweep).model.id)


def rankings_of_sweep(wildcards):
    return [PATHS.ranking(ranking) for ranking in PLAN.rankings_of(wildcards.sweep)]


def repairs_of_sweep(wildcards):
    """What `subtune verify --repair` wrote: it makes the sweep older than an input."""
    return [path for path in [PATHS.repair(wildcards.sweep)] if exists(path)]


def runs_of_sweep(wildcards):
    return [PLAN.runs[run].canonical() for run in PLAN.sweeps[wildcards.sweep].runs]


def sweep_memory(wildcards, attempt):
    return ESTIMATES.sweep_memory(wildcards.sweep, attempt)


def sweep_minutes(wildcards, attempt):
    return ESTIMATES.minutes(ESTIMATES.sweep(wildcards.sweep), attempt)


def sweep_to_refit(wildcards):
    """Return a sweep with runs of the wildcards' method, whose model and tokens it shares."""
    wanted = (wildcards.encoder, wildcards.task, wildcards.method)
    runs = {
        planned.run.id
        for planned in PLAN.experiments[wildcards.experiment]
        if (planned.model, planned.task, planned.method) == wanted
    }
    return next(key for key in PLAN.sweeps if runs & {*PLAN.sweeps[key].runs})


def tokens_of_refit(wildcards):
    return PATHS.tokens(PLAN.first_run(sweep_to_refit(wildcards)).tokens.key)


def model_of_refit(wildcards):
    return PATHS.model(PLAN.first_run(sweep_to_refit(wildcards)).model.id)


def refit_memory(wildcards, attempt):
    return ESTIMATES.sweep_memory(sweep_to_refit(wildcards), attempt)


def refit_minutes(wildcards, attempt):
    # A sweep takes longer than one of its runs on all rows.
    return ESTIMATES.minutes(ESTIMATES.sweep(sweep_to_refit(wildcards)), attempt)


def planned_runs(name):
    """Return what the plan says of an experiment's runs, beside what their records say."""
    names = ("model", "task", "method", "fraction", "scope", "train_rows", "fold")
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
    planned = PLAN.experiments[wildcards.experiment]
    return [
        run
        | {"learning_rate": of.run.recipe.learning_rate, "seed": of.seed}
        | {"partition": of.partition}
        for run, of in zip(planned_runs(wildcards.experiment), planned, strict=True)
    ]


def margin(wildcards):
    return CONFIG.experiments[wildcards.experiment].margin


def runs_of_all_experiments(wildcards):
    """Return the planned runs with their experiment and their estimated operations."""
    return [
        {"run": run["run"], "experiment": name}
        | run
        | {"flops": ESTIMATES.run(run["run"]).flops}
        for name in CONFIG.experiments
        for run in planned_runs(name)
    ]


def minutes_of_train_scores(wildcards, attempt):
    runs = scored_on_training_rows(wildcards.sweep)
    return ESTIMATES.minutes(ESTIMATES.train_scores(runs), attempt)


def specs_of_train_scores(wildcards):
    """Return the specs of a sweep's runs that are scored on their training rows."""
    runs = scored_on_training_rows(wildcards.sweep)
    return [PLAN.runs[run].canonical() for run in runs]


def parameters_drawn(wildcards):
    return experiments.parameters_drawn(CONFIG, settings(wildcards))


def titles_of_all_tasks(wildcards):
    """Return the tasks of all experiments to their titles."""
    tasks = CONFIG.all_tasks()
    return {
        name: tasks[name].title for e in CONFIG.experiments.values() for name in e.tasks
    }


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


def records(wildcards):
    """Return the directory of all run records."""
    return PATHS.records()


def tokens_of_tests(wildcards):
    """Return one directory for each task: all methods share it, so any run names it."""
    first = [PLAN.runs[run] for run, *_ in tested_runs(wildcards).values()]
    return [PATHS.tokens(PLAN.tests[run.tokens.key].key) for run in first]


def tested_tasks(wildcards):
    return [*tested_runs(wildcards)]


def model_of_tests(wildcards):
    return PATHS.model(PLAN.model_ids[wildcards.encoder])


def tests_memory(wildcards, attempt):
    first = [run for run, *_ in tested_runs(wildcards).values()]
    return max(ESTIMATES.evaluation_memory(run, attempt) for run in first)


def tests_minutes(wildcards, attempt):
    runs = [run for runs in tested_runs(wildcards).values() for run in runs]
    return ESTIMATES.minutes(ESTIMATES.test_predictions(runs), attempt)


def name_of_experiment(wildcards):
    return wildcards.experiment
