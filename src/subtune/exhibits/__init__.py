"""Makes tables, figures and the report that shows them all, and files for the GLUE server.

Most functions that make a table or figure take an experiment's `ExperimentResults`. The argument
``methods`` lists the methods to show, in order. The argument ``task_titles`` maps the names of
tasks to their titles, in the order of rows or panels. `subtune.analysis` explains the other
arguments.
"""
