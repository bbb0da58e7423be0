"""The tables and figures of all experiments, and declarations shared by papers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from subtune.analysis.claims import EQUIVALENCE_MARGINS
from subtune.analysis.more_labels import LARGEST_HALF_WIDTH, RATIO
from subtune.analysis.run_scores import PLATEAU
from subtune.analysis.statistics import paired_tests
from subtune.exhibits.answer_tables import answers_table, summary_table
from subtune.exhibits.failure_exhibits import (
    MOST_IN_MATRIX,
    classes_table,
    draw_confusion,
    draw_predictions_against_labels,
    more_labels_table,
    suspect_labels_table,
)
from subtune.exhibits.figures import draw_learning_curves, draw_reproduction, draw_scores_by_size
from subtune.exhibits.finding_tables import choices_table, claims_table, metrics_table
from subtune.exhibits.forest_plot import draw_forest_plot
from subtune.exhibits.heat_maps import draw_parameter_changes
from subtune.exhibits.output import ExperimentResults, StyledTable
from subtune.exhibits.score_tables import comparison_table, scores_by_train_size_table
from subtune.papers.choices import CHOICE_WIDTHS
from subtune.papers.paper import Figure, Needs, Paper, Table

SEVERAL_SEEDS = "± one standard deviation over seeds, if there are several"
DIVERGED_CAPTION = (
    "A method is listed as diverged if, at every learning rate, the loss or a prediction of at "
    "least one seed was not finite."
)
REMARKS = (
    "The remark 'at the edge' means that the best learning rate is the smallest or the largest "
    "that was tried, so a better one may lie outside this range. 'Still rising' means that the "
    "last epoch is the best and the score rose over the last third of the epochs, so more epochs "
    "may help. 'Fell' means that the best epoch is before the last third of the epochs and the "
    "score has decreased since then. Changes within the noise are ignored."
)
COMPARISON_CAPTION = (
    "The table compares reproduced scores (upper rows) with the paper's scores (lower rows), in "
    "the paper's unit. Reproduced scores are from the best learning rate and epoch of each "
    "method. " + DIVERGED_CAPTION
)


def dev_score_table(name: str, title: str, exhibits: Sequence[str], **options: Any) -> Table:
    """Declare a table of reproduced and printed dev scores, with options of `comparison_table`."""
    return Table(
        name,
        title,
        COMPARISON_CAPTION,
        lambda results: comparison_table(results, exhibits, **options),
    )


def test_score_table(name: str, exhibits: Sequence[str], **options: Any) -> Table:
    """Declare a table of test scores from the GLUE server, followed by the paper's scores."""
    table = dev_score_table(name, "Test scores", exhibits, test=True, **options)
    return replace(table, needs=Needs(tables=("test_scores",)))


def metric_table(name: str) -> Table:
    """Declare a table that lists the metrics of each task."""
    return Table(
        name,
        "Metrics",
        "The first metric of each task selects epochs and learning rates. The other metrics are "
        "only reported.",
        make=metrics_table,
    )


def declare_change_heat_map(name: str, title: str, method: str, task: str) -> Figure:
    """Declare a heat map that shows how much a method changes each parameter on one task."""
    return Figure(
        name,
        title,
        "The heat map shows the mean absolute change of each bias and LayerNorm weight in each "
        "layer after fine-tuning, and its average over layers, as in the BitFit paper. Layers are "
        "numbered from 1. Colours range from the smallest to the largest change in the panel. "
        "Parameters that the method does not train are not shown.",
        make=lambda results: draw_parameter_changes(results, method, task),
        needs=Needs(methods=(method,), tables=("parameter_changes",)),
        tasks=(task,),
    )


ANSWERS = Table(
    "answers",
    "What to train",
    "Each answer names the smallest method that scores at most the margin below the reference, on "
    "one task or on average over all tasks. Methods are ordered by encoder size, then by the "
    "number of trained parameters. The reference is the fully fine-tuned model with the highest "
    "score, unless a method beats it by at least the margin with a probability of at least 95 %, "
    "over several seeds. In that case, the best such method is the reference. A method is "
    "*enough* if it is within the margin of each other method with a probability of at least "
    "95 %, over several seeds. It is *probably enough* if it is within the margin of the reference "
    "with a probability of at least 80 %. Full fine-tuning is *worth it* if the probabilities of "
    "all smaller methods sum to less than 5 %, and *probably worth it* if they sum to less than "
    "20 %. Otherwise, the answer is *undecided*. The table lists all methods, smallest first. The "
    "loss is the drop in score relative to the reference; 'at most' is its 95 % upper confidence "
    "bound, and 'within' is the probability that it is within the margin. Methods that are enough "
    "are bold, as are references that beat full fine-tuning. Both scores are averaged over the "
    "seeds and folds that the method and the reference share. Probabilities are computed over "
    "paired seeds and evaluation examples (with a single seed, over examples alone). They are not "
    "corrected for multiple comparisons. Parameters are counted without the classifier.",
    make=answers_table,
)
SUMMARY = Table(
    "summary",
    "Score and cost of each method",
    "The table lists the dev score of each method at its best learning rate (mean ± standard "
    "deviation over seeds), highest score first. If the experiment reproduces a paper, scores are "
    "from the best epoch. Otherwise, each example is scored at an epoch that was chosen on other "
    "examples; an exported model may be from another epoch. The difference from the reference is "
    "paired by seed. Its 95 % interval is computed over seeds and dev examples (with a single "
    "seed, over examples alone). Trained parameters are counted without the classifier. The size "
    "on disk includes all changed values and the classifier. The column 'seconds' is the wall "
    "time to train and evaluate one run; runs that are trained side by side share their time "
    "equally. Seconds and the best epoch are medians over seeds. A method is bold if no smaller "
    "method scores as high and no method of the same size scores higher (Pareto front). 'One "
    "answer' means that a run gives the same prediction for every example. "
    f"{DIVERGED_CAPTION} {REMARKS}",
    make=summary_table,
)
FRONT = Figure(
    "front",
    "Scores of all methods, ordered by size",
    "The plot shows the score of each method at its best learning rate, and its number of trained "
    "parameters, without the classifier. The black line is the reference's score, and the band to "
    "its left is the margin. Bars show the 95 % interval of the difference from the reference, "
    "paired by seed and dev example and shifted by the reference's score. A point is filled if "
    "the method is within the margin of each other method with a probability of at least 95 %, "
    "over several seeds. If a method lacks some seeds or folds, the number that it has is on the "
    "right, and a short line shows the reference's score on the same seeds and folds. Grey "
    "squares are methods that train nothing in the encoder. Orange diamonds are external "
    "predictions. Each row shows at most sixteen methods; diverged methods are left out.",
    make=lambda results: draw_forest_plot(results.summary, results.task_titles),
)
# Tables and figures that are also made for all experiments together.
SUMMARIES = (ANSWERS, FRONT, SUMMARY)
CLAIMS = Table(
    "claims",
    "Claims",
    "The table tests the paper's claims on these runs and on the printed numbers. Only the "
    "paper's methods, dev sets and tasks are used, as far as they were run. The paper's own "
    "criterion decides whether a claim holds: a mean, a number of tasks, or the p-value of a "
    "test. A claim without runs is undecided. If printed numbers contradict a claim, the last "
    "column shows them. A verdict is bold (certain) if the whole 95 % interval of the mean agrees "
    "with it. This t interval is computed over seeds if there are at least three, otherwise over "
    "tasks if there are at least three; the two dev sets of MNLI count as two tasks. For a claim "
    "that a method is better, any positive difference is enough. In claims that it is the same or "
    f"no less, score differences below {EQUIVALENCE_MARGINS['score']} count as ties, except in "
    "claims of the form 'best on k of n tasks' and in claims that state an amount. Ratios within "
    f"{100 * EQUIVALENCE_MARGINS['ratio']:g} % of 1 count as equal. Parameters are counted without "
    "the classifier. A diverged method counts as the worst.",
    make=lambda results: claims_table(results["claims"]),
    needs=Needs(tables=("claims",)),
)
LEFT_OPEN = Table(
    "left_open",
    "What the paper left open, and what differs here",
    "The table lists what the paper does not state, and where subtune differs from the paper or "
    "from its published code, if there is any. Settings are from config.yaml; the column 'in this "
    "experiment' lists settings that have other values. The selections define methods that train "
    "what the published code trains.",
    make=lambda results: StyledTable(results["left_open"], wide=CHOICE_WIDTHS),
    needs=Needs(tables=("left_open",)),
)
SCORES = Table(
    "scores",
    "Dev scores",
    "The table lists the scores of each method at its best learning rate. " + DIVERGED_CAPTION,
    make=lambda results: comparison_table(results),
)
REPRODUCTION = Figure(
    "reproduction",
    "Printed and reproduced scores",
    "The plot compares each printed score with the reproduced score, for all methods that were "
    "run. Test scores are included if the setting test_scores names a file that contains them. "
    f"Bars show {SEVERAL_SEEDS}.",
    make=draw_reproduction,
    needs=Needs(tables=("reproduction",)),
)
PAIRED_TESTS = Table(
    "paired_tests",
    "Comparison of all pairs of methods",
    "The table compares methods two at a time. Their scores are paired by model and task; the two "
    "dev sets of MNLI count as two tasks. The table lists the mean difference (first method minus "
    "second method) and the two-sided p-value of Wilcoxon's signed-rank test, uncorrected and "
    "with Holm's correction over all pairs.",
    make=lambda results: paired_tests(results["chosen"]),
    needs=Needs(questions=2),
)
CHOICES = Table(
    "choices",
    "Chosen learning rates and epochs",
    "For every score in the other tables, the table lists the learning rate, the best epoch and "
    f"the run. The column 'plateau' lists the learning rates that score at most {PLATEAU} below "
    "the best one. " + REMARKS,
    make=choices_table,
)
LEARNING_CURVES = Figure(
    "learning_curves",
    "Learning curves",
    "The curves show the dev score after each epoch, for the best learning rate and seed of each "
    "method. If a run diverged in an epoch, its curve ends there.",
    make=draw_learning_curves,
)
TRAINING_SIZES = Figure(
    "sizes",
    "Score against the number of training examples",
    "The lines show the dev score against the number of training examples. For each method and "
    "number, the best learning rate is used. Larger training sets contain the smaller ones. Bands "
    f"show {SEVERAL_SEEDS}. A gap in a line means that a run diverged.",
    make=draw_scores_by_size,
    needs=Needs(tables=("sizes",)),
)
SCORES_BY_SIZE = Table(
    "scores_by_size",
    "Scores by number of training examples",
    "The table lists dev scores in all metrics for each number of training examples, at the best "
    "learning rate of each method. The metric that the other tables show selects the learning "
    "rates. The best score of each row is bold.",
    make=scores_by_train_size_table,
    needs=Needs(tables=("sizes",)),
)
# This table is made together with the zip files, so that no table has to wait for these files.
SUBMISSION = Table(
    "contents",
    "Files for the GLUE server",
    "For each file in a zip archive for the GLUE server, the table names the run that predicted "
    "the labels, or says why all predictions in the file are equal. Predictions are from the "
    "epoch with the best score in the task's first metric.",
    make=lambda results: results["submission"],
)


CLASSES = Table(
    "classes",
    "Errors: precision, recall and F1 of each label",
    "The table lists precision, recall and F1 of each label with 95 % Wilson intervals, for the "
    "method that the answer names and for full fine-tuning. The column 'rows' is the number of "
    "examples with the label. Only examples on which a run was not trained are counted. With "
    "several seeds, counts are averaged over seeds.",
    make=classes_table,
    needs=Needs(tables=("classes",)),
)
CONFUSION = Figure(
    "confusion",
    "Errors: confusion matrix",
    "The cells show the number of examples for each pair of label and prediction. The run was not "
    "trained on these examples. The shade shows the share of the examples with the same label. "
    f"With more than {MOST_IN_MATRIX} labels, bars show the most frequent confusions.",
    make=draw_confusion,
    needs=Needs(tables=("confusion",)),
)
SUSPECTS = Table(
    "suspects",
    "Errors: rows whose label may be wrong",
    "The labels of these rows may be wrong, so check them first. The column 'probability' is the "
    "predicted probability of the given label (mean over seeds), from the method that the answer "
    "names. The runs were not trained on these rows. Each label has a threshold: its mean "
    "predicted probability over the rows with that label. A row is listed if at least one label "
    "reaches its threshold, and its label is neither the most probable label nor the most probable "
    "of those that reach their thresholds (confident learning). The least probable labels come "
    "first. If labels are numbers, the largest residuals "
    "(prediction minus label) come first. The column 'row' is the row's line in a text file, or "
    "its number in another table.",
    make=suspect_labels_table,
    needs=Needs(tables=("suspects",)),
)
PREDICTED = Figure(
    "predicted",
    "Errors: predictions and labels",
    "The plots show predictions against labels, for the method that the answer names and for full "
    "fine-tuning. The runs were not trained on these examples. On the line, predictions equal "
    "labels.",
    make=draw_predictions_against_labels,
    needs=Needs(tables=("predicted",)),
)
MORE_LABELS = Table(
    "more_labels",
    "Would more labels help?",
    "For methods that were trained on training sets of several sizes, the table lists the score "
    "for each number of training examples. The last column estimates the gain from doubling the "
    "largest training set, with a 95 % interval over examples and over seeds or folds. Each "
    f"doubling is assumed to gain {RATIO:g} times as much as the previous one. The estimate is "
    f"also given as a sentence, unless its interval is wider than ±{LARGEST_HALF_WIDTH:g}.",
    make=more_labels_table,
    needs=Needs(tables=("more_labels",)),
)
# These are shown in experiments that reproduce no paper.
FAILURES = (CLASSES, CONFUSION, SUSPECTS, PREDICTED, MORE_LABELS)


def exhibits_with_data(
    paper: Paper, results: ExperimentResults
) -> Iterator[tuple[Table, ExperimentResults]]:
    """Yield each table or figure whose needs are met, and the results to show."""
    for exhibit in all_exhibits(paper):
        columns, is_of_paper = list[str](), exhibit in paper.exhibits
        for task, about in results.tasks.items():
            if exhibit.tasks and task not in exhibit.tasks:
                continue
            if is_of_paper and not exhibit.tasks and task in paper.tasks_apart:
                continue
            own = [c for c in about["columns"] if c in paper.evaluated.get("column", ())]
            # A task that the paper does not have is shown with all of its dev sets.
            columns += (own if is_of_paper else []) or [*about["columns"]]
        if columns and exhibit.needs.are_met(results):
            yield exhibit, results.select_columns(columns)


def all_exhibits(paper: Paper) -> list[Table]:
    """Return all tables and figures of experiments with a paper, in the order of the report."""
    last = [PAIRED_TESTS, CHOICES, LEARNING_CURVES, TRAINING_SIZES, SCORES_BY_SIZE]
    if not paper.name:
        return [ANSWERS, FRONT, *FAILURES, SUMMARY, SCORES, *last]
    return [*paper.exhibits, CLAIMS, REPRODUCTION, LEFT_OPEN, *SUMMARIES, *last]
