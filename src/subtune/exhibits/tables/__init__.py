"""The papers' tables, each made from one table of numbers."""
