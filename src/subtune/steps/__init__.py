"""Jobs: the plan as a file, and the one function that does a job, whoever asks."""
