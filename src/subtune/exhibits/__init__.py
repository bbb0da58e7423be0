"""Tables, figures, the report that shows them all, and the card of an exported model.

Each table or figure is made from one table of numbers. ``chosen`` and ``row_scores`` are those of
`subtune.analysis`. ``task_titles`` and ``column_titles`` are titles by name, in the order of rows,
columns or panels. ``style`` has a figure's ``width`` in inches and its ``colormap``.
"""
