"""The formats of files that people have; one module each, and none knows of tasks."""
