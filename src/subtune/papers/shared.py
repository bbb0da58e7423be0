"""Tables and figures that every experiment has, and declarations that papers share."""

from collections.abc import Iterator, Sequence
from typing import Any

from subtune.analysis.claims import EQUIVALENCE_MARGINS
from subtune.analysis.more_labels import RATIO, WIDEST
from subtune.analysis.run_scores import PLATEAU
from subtune.analysis.statistics import paired_tests
from subtune.exhibits.answer_tables import answers_table, summary_table
from subtune.exhibits.failure_exhibits import (
    MOST_IN_MATRIX,
    classes_table,
    draw_confusion,
    draw_predicted,
    more_labels_table,
    suspects_table,
)
from subtune.exhibits.figures import (
    draw_learning_curves,
    draw_reproduction,
    draw_scores_by_size,
)
from subtune.exhibits.finding_tables import choices_table, claims_table, metrics_table
from subtune.exhibits.forest_plot import draw_front
from subtune.exhibits.glue_server import submission_table
from subtune.exhibits.heat_maps import draw_parameter_changes
from subtune.exhibits.output import ExperimentResults
from subtune.exhibits.score_tables import comparison_table, sizes_table
from subtune.papers.paper import Figure, Needs, Paper, Table

SEVERAL_SEEDS = "one standard deviation over seeds, if there are several"
DIVERGED = (
    "Diverged means that at every learning rate the loss or a prediction of one seed was not "
    "finite."
)
REMARKS = (
    "At the edge: the best learning rate is the smallest or the largest of those tried, so a "
    "better one may lie beyond it. Still rising: the last epoch is the best, and the score still "
    "rose over the last third of the epochs, so more epochs may help. Fell: the best epoch is "
    "before the last third, and the score has fallen since. Changes within the noise are ignored."
)
COMPARED = (
    "Scores at each method's best learning rate and epoch, ours above, the paper's below. The best "
    "of each block of rows is bold; † marks methods that differ from full fine-tuning. " + DIVERGED
)


def dev_scores(name: str, title: str, exhibits: Sequence[str], **options: Any) -> Table:
    """Return a table of dev scores above those that a paper's exhibits print.

    Args:
        options: options of `subtune.exhibits.score_tables.comparison_table`.
    """
    return Table(
        name, title, COMPARED, lambda results: comparison_table(results, exhibits, **options)
    )


def test_scores(name: str, exhibits: Sequence[str]) -> Table:
    """Return a table of the GLUE server's test scores above printed ones."""
    return Table(
        name,
        "Test scores",
        COMPARED,
        make=lambda results: comparison_table(results, exhibits, test=True),
        needs=Needs(tables=("test_scores",)),
    )


def metrics_of_tasks(name: str) -> Table:
    """Return a table of the tasks' metrics."""
    return Table(
        name,
        "Metrics",
        "Each task's metric, which also selects epoch and learning rate, and its other metrics.",
        make=metrics_table,
    )


def changes(name: str, title: str, method: str, task: str) -> Figure:
    """Return a heat map of a method's changes of each parameter of a layer, on one task."""
    return Figure(
        name,
        title,
        "Mean absolute change of a layer's biases and LayerNorm weights after fine-tuning "
        "(BitFit, section 4). Each figure has its own scale. Layers count from 0. Parameters that "
        "the method does not train are not shown.",
        make=lambda results: draw_parameter_changes(results, method, task),
        needs=Needs(methods=(method,), tables=("parameter_changes",)),
        tasks=(task,),
    )


ANSWERS = Table(
    "answers",
    "What to train",
    "The smallest method that loses at most the margin against the reference, for each task, and "
    "for the mean over all tasks. A method is smaller if its encoder is smaller, or if it trains "
    "less of an encoder of the same size. The reference is full fine-tuning of the model on which "
    "it scores best, unless another method beats it by more than the margin with a probability of "
    "95 % over several seeds. A method is enough if the probability to lose at most the margin is "
    "at least 95 % over several seeds, or if no method reaches that, at least 50 %. Below: every "
    "method, the smallest first, its loss against the reference, the loss that it does not exceed "
    "with a probability of 95 %, and the probability that it is within the margin; methods with at "
    "least 95 % over several seeds, and references that beat full, are bold. Probabilities are "
    "over seeds and judging rows, both paired; with a single seed, over rows alone. They are not "
    "corrected for comparing several methods. Parameters are counted without the classifier, which "
    "every method trains.",
    make=answers_table,
)
SUMMARY = Table(
    "summary",
    "What each method scores, and what it costs",
    "Dev score (mean ± standard deviation over seeds) at each method's best learning rate, from "
    "the highest to the lowest; in a paper's experiment at the best epoch, otherwise each row at "
    "an epoch that other rows chose. The difference to the reference is paired by seed; its 95 "
    "% interval is over seeds and dev rows, or with one seed over rows. Trained parameters are "
    "counted without the classifier. The size on disk includes all changed values and the "
    "classifier. Seconds are the time of training and evaluating one run; runs side by side share "
    "the time. Seconds and the best epoch are medians over seeds. Methods are bold if no other is "
    "better in both score and parameters. One answer: the method predicted the "
    "same for every row. " + DIVERGED + " " + REMARKS,
    make=summary_table,
)
FRONT = Figure(
    "front",
    "Every method's score, from the smallest method to the largest",
    "Scores at each method's best learning rate, and the number of trained parameters, without "
    "the classifier. The black line is the reference, and the band is the margin below it. A bar "
    "is the 95 % interval of the difference to the reference, paired by seed and dev row, and is "
    "placed at the reference's score. Points are filled if the method is within the margin with a "
    "probability of at least 95 %, over several seeds; the last column is this probability. Grey "
    "squares train nothing in the encoder. Orange diamonds are predictions that were brought. At "
    "most sixteen methods of a panel are shown, and none that diverged.",
    make=draw_front,
)
# Exhibits that are also made from the runs of all experiments together.
SUMMARIES = (ANSWERS, FRONT, SUMMARY)
CLAIMS = Table(
    "claims",
    "Claims",
    "The paper's claims, tested on these runs. The paper judges by a mean, a number of tasks, an "
    "order or a test's p-value; the table does the same with these runs and with the printed "
    "numbers. If printed numbers contradict the claim, the last column names them. The 95 % "
    "interval of the mean is Student's, over units. If there are at least three seeds, a unit is a "
    "seed's mean over all tasks; otherwise it is a task, and MNLI counts as two. Supported: the "
    "whole interval agrees with the claim. Not supported: the whole interval contradicts the claim "
    "by more than the margin. Undecided: all other cases, and fewer than three units. Differences "
    f"of scores below {EQUIVALENCE_MARGINS['score']} do not count, except in claims about the best "
    "method on a number of tasks and in claims that state an amount. Ratios within "
    f"{100 * EQUIVALENCE_MARGINS['ratio']:g} % count as equal. Parameters are counted without the "
    "classifier; a method that diverged counts as the worst.",
    make=lambda results: claims_table(results["claims"]),
    needs=Needs(tables=("claims",)),
)
SCORES = Table(
    "scores",
    "Dev scores",
    "Scores at each method's best learning rate. The best are bold; † marks methods that "
    "differ from full fine-tuning. " + DIVERGED,
    make=lambda results: comparison_table(results),
)
REPRODUCTION = Figure(
    "reproduction",
    "Every printed score beside ours",
    "Our score against the reported score, for every printed score that these runs have. Test "
    f"scores are included once you have entered them. Bars are {SEVERAL_SEEDS}.",
    make=draw_reproduction,
    needs=Needs(tables=("reproduction",)),
)
PAIRED_TESTS = Table(
    "paired_tests",
    "Pairs of methods",
    "Each pair of methods, paired by column: the mean difference (first minus second); the "
    "two-sided p-value of Wilcoxon's signed-rank test, uncorrected and with Holm's correction for "
    "all pairs.",
    make=lambda results: paired_tests(results["chosen"]),
    needs=Needs(questions=2),
)
CHOICES = Table(
    "choices",
    "What was chosen",
    "The learning rate, the run and its best epoch for every score of the tables. The plateau is "
    f"the searched rates whose scores are at most {PLATEAU} lower than the search's best. "
    + REMARKS,
    make=choices_table,
)
LEARNING_CURVES = Figure(
    "learning_curves",
    "Learning curves",
    "Dev score by epoch, for each method at its best learning rate and with its best seed. The "
    "curve of a diverged run ends where it diverged.",
    make=draw_learning_curves,
)
SIZES = Figure(
    "sizes",
    "Score by number of training rows",
    "Dev score by the number of training rows, at each method's best learning rate for that "
    f"number. Larger training sets contain the smaller ones. Bands are {SEVERAL_SEEDS}. A line has "
    "a gap where a run diverged.",
    make=draw_scores_by_size,
    needs=Needs(tables=("sizes",)),
)
SCORES_BY_SIZE = Table(
    "scores_by_size",
    "Scores by number of training rows",
    "Dev scores in every metric. Each method has its best learning rate for that number of "
    "training rows, by the metric of the other tables. The best of each row is bold; if the best "
    "method changes between rows, curves cross.",
    make=sizes_table,
    needs=Needs(tables=("sizes",)),
)
# This table is made with the zip files, so that other exhibits need not wait for them.
SUBMISSION = Table(
    "contents",
    "Files for the GLUE server",
    "The origin of each file in each zip for the GLUE server: the run that predicted it, or the "
    "reason why all its predictions are equal. Predictions come from the epoch that is best by "
    "the task's first metric.",
    make=lambda results: submission_table(results["submission"]),
)


CLASSES = Table(
    "classes",
    "Where it fails: labels",
    "Precision, recall and F1 of each label, with 95 % intervals, for the method that the answer "
    "names and for full fine-tuning. Rows: those with the label. All predictions are of rows on "
    "which the run did not train; with several seeds, counts are means over seeds. Intervals are "
    "over rows (Wilson).",
    make=classes_table,
    needs=Needs(tables=("classes",)),
)
CONFUSION = Figure(
    "confusion",
    "Where it fails: which labels are confused",
    "Numbers of rows by label and prediction, on which the run did not train. The shade is the "
    f"share of the label's rows. Of more than {MOST_IN_MATRIX} labels, bars show the most frequent "
    "confusions.",
    make=draw_confusion,
    needs=Needs(tables=("confusion",)),
)
SUSPECTS = Table(
    "suspects",
    "Where it fails: rows that disagree with their label",
    "Look at these rows first: their label may be wrong. Probability: that of the label as it is "
    "given, predicted by a run of the method that the answer names, which did not train on the "
    "row; the mean over seeds. A label is listed if another label's probability is at least its "
    "mean among the rows that have that label (confident learning), and the least probable labels "
    "come first. For numbers, the largest residuals (prediction minus label) come first. Row: its "
    "number among the rows with a label.",
    make=suspects_table,
    needs=Needs(tables=("suspects",)),
)
PREDICTED = Figure(
    "predicted",
    "Where it fails: predicted and true numbers",
    "Predictions of rows on which the run did not train, against the rows' numbers, for the method "
    "that the answer names and for full fine-tuning. On the line both are equal.",
    make=draw_predicted,
    needs=Needs(tables=("predicted",)),
)
MORE_LABELS = Table(
    "more_labels",
    "Would more labels help?",
    "Scores by number of training rows, for methods that train on several numbers, and what twice "
    "as many rows would add, with a 95 % interval over seeds or folds and rows. A doubling is "
    f"taken to add {RATIO:g} times as much as the doubling before. There is no sentence if half of "
    f"the interval is wider than {WIDEST:g}.",
    make=more_labels_table,
    needs=Needs(tables=("more_labels",)),
)
# For experiments that reproduce no paper.
FAILURES = (CLASSES, CONFUSION, SUSPECTS, PREDICTED, MORE_LABELS)


def exhibits_with_data(
    paper: Paper, results: ExperimentResults
) -> Iterator[tuple[Table, ExperimentResults]]:
    """Yield each table and figure for which an experiment has the results.

    Each comes with the results of the tasks that it shows.
    """
    for exhibit in all_exhibits(paper):
        if exhibit.tasks:
            tasks = [task for task in results.tasks if task in exhibit.tasks]
        else:
            apart = paper.tasks_apart if exhibit in paper.exhibits else ()
            tasks = [task for task in results.tasks if task not in apart]
        if tasks and exhibit.needs.are_met(results):
            yield exhibit, results.on_tasks(tasks)


def all_exhibits(paper: Paper) -> list[Table]:
    """Return all tables and figures of an experiment that reproduces a paper, in order."""
    last = [PAIRED_TESTS, CHOICES, LEARNING_CURVES, SIZES, SCORES_BY_SIZE]
    if not paper.name:
        return [ANSWERS, FRONT, *FAILURES, SUMMARY, SCORES, *last]
    return [*paper.exhibits, CLAIMS, REPRODUCTION, *SUMMARIES, *last]
