"""Specs: the values that decide each stage's result, from a dataset's rows to a run.

Each stage's code has a version, which stands beside its spec. Raise the version when the same spec
no longer gives the same result. Ids and records leave out fields that have their default, so a
default never changes without a new version.
"""
