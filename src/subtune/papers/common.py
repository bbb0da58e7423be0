"""Tables and figures that every experiment has, and what several papers' declarations share."""

from collections.abc import Iterable, Sequence

from subtune.papers.base import EQUIVALENCE_MARGINS, Claim, Figure, Needs, Paper, Table

# Where claims find their statistics.
STATISTICS = "subtune.analysis.statistics"
# Data that are made of the Fisher information of one model.
INFORMATION = frozenset({"component_shares", "layernorm_information"})
DIVERGED = (
    "Diverged means that at every learning rate a seed's loss or one of its predictions was not "
    "finite."
)
COMPARED = (
    "Scores at each method's best learning rate and epoch, ours above, the paper's below. The best "
    "of each block of rows is bold; † marks methods that differ from full fine-tuning. " + DIVERGED
)


def dev_scores(name: str, title: str, exhibits: Sequence[str]) -> Table:
    """A table of methods task by task, above the scores that some of a paper's exhibits print."""
    return Table(
        name,
        title,
        COMPARED,
        make="subtune.exhibits.tables.comparison:comparison",
        reads={"chosen": "chosen"},
        facts=("paper", "columns", "source"),
        options={"exhibits": exhibits},
    )


def test_scores(name: str, exhibits: Sequence[str]) -> Table:
    """As `dev_scores`, of the scores that the GLUE server returned."""
    return Table(
        name,
        "Test scores",
        COMPARED,
        make="subtune.exhibits.tables.comparison:comparison",
        reads={"chosen": "test_scores"},
        facts=("paper", "columns"),
        options={"exhibits": exhibits, "split": "test", "source": "test set"},
    )


def metrics(name: str) -> Table:
    """The tasks' metrics."""
    return Table(
        name,
        "Metrics",
        "Each task's metric, by which epoch and learning rate are chosen too, and what else is "
        "computed.",
        make="subtune.exhibits.tables.metrics:metrics",
        facts=("tasks",),
    )


def changes(name: str, title: str, method: str, task: str) -> Figure:
    """A heat map of how much a method changed each parameter of a layer, on one task."""
    return Figure(
        name,
        title,
        "Mean absolute change of a layer's biases and LayerNorm weights after fine-tuning "
        "(BitFit, section 4), on the figure's own scale. Layers count from 0. What the method "
        "does not train is not shown.",
        make="subtune.exhibits.figures.changes:parameter_changes",
        reads={"changes": "parameter_changes"},
        facts=("task_titles",),
        options={"method": method, "task": task},
        needs=Needs(methods=(method,), tasks=(task,)),
        style="changes",
    )


ANSWERS = Table(
    "answers",
    "The smallest method that is good enough",
    "Per model and task, and for the mean over all its tasks, the smallest method whose score is "
    f"not below full fine-tuning's by more than {EQUIVALENCE_MARGINS['score']}: by the mean, and "
    "surely, where the whole 95 % interval of the difference is within that. The interval is over "
    "seeds, paired, from three on, and of all tasks else over the tasks. How many more seeds would "
    "decide about the method by the mean follows from the spread of those that are there. "
    "Parameters are counted without the classifier, which every method trains. Learning rates and "
    "epochs were chosen on the same dev rows, and several methods are compared: neither is "
    "corrected for.",
    make="subtune.exhibits.tables.answers:smallest_methods",
    reads={"chosen": "chosen"},
    facts=("task_titles",),
)
SUMMARY = Table(
    "summary",
    "What each method scores, and what it costs",
    "Dev score (mean ± standard deviation over seeds) at each method's best learning rate and "
    "epoch, from the highest to the lowest; the difference to full fine-tuning of the same seeds "
    "with its 95 % interval, from three seeds on; trained parameters without the classifier; the "
    "size on disk of the values that changed, with it; seconds of training and evaluating one run, "
    "of those side by side its share; the epoch that counts. Medians over seeds. Methods that no "
    "other beats in both score and parameters are bold. One answer: the same was predicted of "
    "every row. " + DIVERGED,
    make="subtune.exhibits.tables.summary:methods_by_score",
    reads={"chosen": "chosen"},
    facts=("task_titles",),
)
FRONT = Figure(
    "front",
    "Score against trained parameters",
    "Dev score against the number of trained parameters, without the classifier, at each method's "
    "best learning rate and epoch. Bars are one standard deviation over seeds, where there are "
    "several. The grey line is the front: the best score with at most so many parameters. Masks "
    "of one kind are joined. Methods that diverged are not shown.",
    make="subtune.exhibits.figures.front:score_by_parameters",
    reads={"chosen": "chosen"},
    facts=("task_titles",),
)
# What is made of the runs of all experiments too.
SUMMARIES = (ANSWERS, FRONT, SUMMARY)
CLAIMS = Table(
    "claims",
    "Claims",
    "The paper's claims, asked of these runs. As the paper judges: by a mean, by a number of "
    "tasks, by an order or by a test's p, of this run and of the paper's printed numbers; where "
    "those contradict the claim, the last column says which. Beside that the mean over units with "
    "its 95 % interval (Student's t). A unit is a seed, its mean over all tasks, where there are "
    "at least three, and else a task, of which MNLI has two. Supported means that the whole "
    "interval says so, not supported that none of it does by more than counts as none; what is in "
    "between, or has fewer than three units, is not enough runs to tell. Differences of scores "
    f"below {EQUIVALENCE_MARGINS['score']} count as none, except in what is best on a number of "
    "tasks and where a claim says how much, and ratios within "
    f"{100 * EQUIVALENCE_MARGINS['ratio']:g} %. Parameters are counted without the classifier; a "
    "method that diverged counts as the worst.",
    make="subtune.exhibits.tables.claims:checklist",
    reads={"claims": "claims"},
)
SCORES = Table(
    "scores",
    "Dev scores",
    "Scores at each method's best learning rate and epoch. The best are bold; † marks methods that "
    "differ from full fine-tuning. " + DIVERGED,
    make="subtune.exhibits.tables.comparison:comparison",
    reads={"chosen": "chosen"},
    facts=("paper", "columns", "source"),
)
REPRODUCTION = Figure(
    "reproduction",
    "Every printed score beside ours",
    "Every score that the paper prints and that this run has, reported against ours, of test sets "
    "too once their scores are entered. Bars are one standard deviation over seeds, where there "
    "are several.",
    make="subtune.exhibits.figures.reproduction:reproduction",
    reads={"table": "reproduction"},
    facts=("column_titles",),
    numbers="reproduction",
)
PAIRED_TESTS = Table(
    "paired_tests",
    "Pairs of methods",
    "Wilcoxon's signed-rank test of each pair of methods, paired by column: the mean difference "
    "(first minus second) and a two-sided p-value, uncorrected.",
    make="subtune.exhibits.tables.significance:paired_tests",
    reads={"chosen": "chosen"},
)
CHOICES = Table(
    "choices",
    "What was chosen",
    "Learning rate, epoch and run behind every score of the tables.",
    make="subtune.exhibits.tables.choices:choices",
    reads={"chosen": "chosen"},
    facts=("tasks",),
)
LEARNING_CURVES = Figure(
    "learning_curves",
    "Learning curves",
    "Dev score by epoch of the runs that the tables show: each method's best learning rate, and of "
    "several seeds the best. The curve of a run that diverged ends where it did.",
    make="subtune.exhibits.figures.curves:learning_curves",
    reads={"chosen": "chosen", "curves": "learning_curves"},
    facts=("task_titles",),
)
SCORE_BY_TRAIN_ROWS = "subtune.exhibits.figures.sizes:score_by_train_rows"
SIZES = Figure(
    "sizes",
    "Score by number of training rows",
    "Dev score by the number of training rows, at each method's best learning rate for that many. "
    "Smaller training sets are part of larger ones. Bands are one standard deviation over seeds, "
    "where there are several; a line has a gap where a run diverged.",
    make=SCORE_BY_TRAIN_ROWS,
    reads={"sizes": "sizes"},
    facts=("task_titles",),
)
SCORES_BY_SIZE = Table(
    "scores_by_size",
    "Scores by number of training rows",
    "Dev scores in every metric, at each method's best learning rate for so many training rows, by "
    "the metric that the other tables show. The best of each row is bold: where that is another "
    "method than in the row above, curves cross.",
    make="subtune.exhibits.tables.sizes:scores_by_train_rows",
    reads={"sizes": "sizes"},
    facts=("columns",),
)
SUBMISSION = Table(
    "submission/contents",
    "Files for the GLUE server",
    "What each file of each zip for the GLUE server is made of: the run that predicted it, or why "
    "it holds a constant. Predictions are of the epoch that is best by the task's first metric.",
    make="subtune.exhibits.tables.submission:contents",
    reads={"parts": "submission"},
    needs=Needs(submissions=True),
)


def exhibits_around(paper: Paper) -> list[Table]:
    """All tables and figures of an experiment that reproduces a paper, in order."""
    first = [*SUMMARIES, *([CLAIMS] if paper.claims else [])]
    last = [PAIRED_TESTS, CHOICES, LEARNING_CURVES, SIZES, SCORES_BY_SIZE, SUBMISSION]
    if not paper.name:
        return [*first, SCORES, *last]
    return [*first, *paper.exhibits, REPRODUCTION, *last]


def reads_information(paper: Paper) -> bool:
    """Whether a paper shows the Fisher information of an experiment's model."""
    return any(INFORMATION & {*exhibit.reads.values()} for exhibit in paper.exhibits)


def figure_styles(papers: Iterable[Paper]) -> list[str]:
    """Names of figures' settings, each once."""
    exhibits = [exhibit for paper in papers for exhibit in exhibits_around(paper)]
    return list(dict.fromkeys(e.style_name for e in exhibits if isinstance(e, Figure)))


def two_biases_change_most(printed_in: str, tasks: int) -> Claim:
    """That of all biases b_q and b_m2 change most, on every one of so many tasks."""
    return Claim(
        "b_q and b_m2 change more than the other biases",
        printed_in,
        "the smaller of their mean absolute changes ÷ the largest other bias's",
        "more",
        measure="ratio",
        reads=("parameter_changes",),
        units=f"{STATISTICS}:changes_to_largest_other",
        of=("bitfit", ("b_q", "b_m2"), "b_"),
        at_least=(tasks, tasks),
        is_printed=False,
    )
