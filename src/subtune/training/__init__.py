"""Training, evaluation and recording of runs, and Fisher information of pretrained models."""
