"""Planning: from a configuration to runs, their inputs, jobs and costs."""
