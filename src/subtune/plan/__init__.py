"""Plans: the runs of a configuration, their inputs, their jobs and their estimated costs."""
