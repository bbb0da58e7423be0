"""Make tables, figures, the report that contains them, and files for the GLUE server.

Most functions take an experiment's `ExperimentResults`. ``methods`` lists the methods to show, in
order. ``task_titles`` maps tasks to titles, in the order of rows or panels.
"""
