"""Data sets of all tasks, from the hub, GLUE's TSV files, a user's files or the package."""
