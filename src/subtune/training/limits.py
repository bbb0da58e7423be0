"""Limits of what trains at once and is kept, which estimates of memory and disk read, too."""

# The tokens in a pass that keep a CPU busy. More tokens take memory and save little time.
CPU_TOKENS = 3000
# A group of runs keeps the newest checkpoint and the one before it.
CHECKPOINTS_KEPT = 2
