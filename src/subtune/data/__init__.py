"""Rows of every task, from the hub, GLUE's TSV files, a user's files or the package."""
