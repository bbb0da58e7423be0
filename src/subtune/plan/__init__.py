"""Plans of runs, with their inputs, jobs and estimated costs, made from a configuration."""
