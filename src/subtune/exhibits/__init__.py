"""Tables, figures and the report that shows them all.

``chosen`` and ``row_scores`` are those of `subtune.analysis`.
"""
