"""Sizes that training and its cost estimate share."""

# A pass of so many tokens keeps a CPU busy; more tokens take memory and save little time.
CPU_TOKENS = 3000
# Tokens of a batch in evaluation, about.
EVALUATION_TOKENS = 2048
# Checkpoints of a group of runs that stay: the newest, and the one before it.
CHECKPOINTS_KEPT = 2
