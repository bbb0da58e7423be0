"""Tables, figures, the report that shows them all, and the card of an exported model.

Most are made from an experiment's `Results`. Other arguments are named as in `subtune.analysis`, or
after the function that returns them. ``methods`` are the methods to show, in order. ``task_titles``
are titles by name, in the order of rows or panels.
"""
