"""Tables, figures, the report that shows them all, and the card of an exported model.

Each table or figure is made from tables of numbers. Arguments are named as in `subtune.analysis`,
or after its function that makes them. ``methods`` are the methods to show, in order.
``task_titles`` and ``column_titles`` are titles by name, in the order of rows, columns or panels.
``style`` has a figure's ``width`` in inches and its ``colormap``.
"""
