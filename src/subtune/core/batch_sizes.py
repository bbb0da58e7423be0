"""Sizes that what computes and what estimates it have in common."""

# A pass of so many tokens keeps a CPU busy; more of them take memory and save little.
CPU_TOKENS = 3000
# Of a batch in evaluation, about.
EVALUATION_TOKENS = 2048
# Checkpoints of a group of runs: the newest, and the one before it.
CHECKPOINTS_KEPT = 2
