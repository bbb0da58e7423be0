"""Planning: turn a configuration into runs, their inputs, jobs and estimated costs."""
