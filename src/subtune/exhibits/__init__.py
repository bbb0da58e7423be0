"""Tables, figures, the report that shows them all, and the files for the GLUE server.

Most tables and figures are functions of an experiment's `ExperimentResults`. ``methods`` are the
methods that they show, in order. ``task_titles`` are the tasks' titles by name, in the order of
rows or panels. Other arguments have the names that `subtune.analysis` explains.
"""
