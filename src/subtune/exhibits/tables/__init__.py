"""The papers' tables, each made from one table of numbers.

``task_titles`` and ``column_titles`` are titles by name, in the order of the rows or columns.
"""
