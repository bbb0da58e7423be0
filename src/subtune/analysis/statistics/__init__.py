"""Statistics of claims: numbers in which 0 means no difference.

Each one reads tables of numbers, ours or a paper's, and returns a series with a number per cell.
Its index names the model, the column of the tables or the task, and the seed, as far as the table
tells them apart. The numbers are differences of scores or of shares, rank correlations, and
logarithms of ratios. The series is empty if a table lacks the numbers.

A family of methods is a pattern that matches their names from the start. A statistic that a single
claim needs lies beside that claim.
"""
