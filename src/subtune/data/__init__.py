"""Data sets of all tasks, from the hub, GLUE's TSV files, a user's files or the package.

All functions raise a `SubtuneError` with the place of the problem if data cannot be read, or do not
fit the task.
"""
