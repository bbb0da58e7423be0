"""Foundations that know nothing of models or tasks: errors, content ids, paths, jobs."""
