"""The papers' figures, each drawn from one table of numbers.

``task_titles`` and ``column_titles`` are titles by name, in the order of the panels. ``style`` has
the ``width`` in inches and a ``colormap``.
"""
