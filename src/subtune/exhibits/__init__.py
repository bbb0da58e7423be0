"""Makes tables and figures, the report that contains them, and files for the GLUE server.

Most functions that make a table or figure take an experiment's `ExperimentResults`. The argument
``methods`` lists the methods to show, in order. The argument ``task_titles`` maps the names of
tasks to their titles, in the order of rows or panels. Further arguments are explained in
`subtune.analysis`.
"""
