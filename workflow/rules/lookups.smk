# What the rules before and of training look up in the plan.


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
