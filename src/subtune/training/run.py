"""A run while it trains."""

from collections.abc import Sequence

from torch import Tensor

from subtune.runs.spec import Recipe
from subtune.training.checkpoints import State
from subtune.training.evaluation import Evaluation
from subtune.training.optimizer import AdamW
from subtune.training.results import Result


class Run:
    """A run while it trains.

    Attributes:
        number: the run's index in its group.
        optimizer: steps the run's leaves.
        result: the result so far.
        best: copies of the leaves after the best epoch.
    """

    def __init__(self, number: int, recipe: Recipe, leaves: Sequence[Tensor], trainable: int):
        self.number = number
        self.recipe = recipe
        self.optimizer = AdamW(leaves, recipe.weight_decay)
        self.result = Result(trainable)
        self.best: list[Tensor] = []

    @property
    def has_ended(self) -> bool:
        """True after divergence, after the last epoch, or after ``patience`` epochs without a
        better score."""
        patience, best = self.recipe.patience, self.result.best_epoch
        epochs, last = len(self.result.history), self.recipe.refit or self.recipe.epochs
        if self.result.diverged or epochs == last:
            return True
        return patience is not None and best is not None and epochs - best >= patience

    def state(self) -> State:
        """Return the optimiser's state and the result so far, for `restore`."""
        result, best = self.result, self.result.best
        return {
            "optimizer": self.optimizer.state(),
            "history": result.history,
            "predictions": result.predictions,
            "best_epoch": result.best_epoch,
            "best": [best.scores, self.best],
        }

    def restore(self, state: State) -> None:
        """Continue from a checkpoint of `state`."""
        self.optimizer.restore(state["optimizer"])
        result, (scores, best) = self.result, state["best"]
        result.history, result.best_epoch = state["history"], state["best_epoch"]
        result.predictions = [
            {split: values.numpy() for split, values in by_split.items()}
            for by_split in state["predictions"]
        ]
        predictions = result.predictions[result.best_epoch - 1] if result.best_epoch else {}
        result.best = Evaluation(scores, predictions)
        self.best = [values.to(self.optimizer.leaves[0].device) for values in best]
