"""The `subtune` command."""

import io
import itertools
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter

from subtune.comparison import KindOptions, Options, TableOptions
from subtune.core import VERSION
from subtune.core.errors import SubtuneError, escape_control_characters, format_allowed
from subtune.core.files import Layout, find_results
from subtune.core.process import end_process
from subtune.share import DEFAULT_MINUTES

if TYPE_CHECKING:
    import pandas as pd


# Modules are imported when a command needs them, so that `subtune --help` takes 0.2 seconds.
app = App(
    name="subtune",
    help="Find the few parameters of a pretrained model that are worth fine-tuning.",
    version=f"subtune {VERSION}",
    help_flags=["--help", "-h"],
    default_parameter=Parameter(negative="", show_default=False, show_choices=False),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    # `subtune run` passes `--` on to Snakemake.
    end_of_options_delimiter="",
)
EXAMPLE_TABLES = "--train examples/weather-train.csv --dev examples/weather-dev.csv"
File = Annotated[Path, Parameter(metavar="FILE")]
Directory = Annotated[Path, Parameter(metavar="DIR")]
ColumnArgument = Annotated[str, Parameter(metavar="COLUMN")]
# Arguments after the configuration are passed to Snakemake.
SnakemakeArgument = Annotated[str, Parameter(allow_leading_hyphen=True)]
HELP_POSITIONS = itertools.count()


def _command(example: str) -> Callable:
    """Return a decorator that makes a function a subcommand whose help shows ``example``.

    ``subtune --help`` lists the subcommands in the order in which this module defines them.
    """
    return app.command(help_epilogue=f"example: subtune {example}", sort_key=next(HELP_POSITIONS))


def start() -> NoReturn:
    """Run the `subtune` command, and end the process with the command's exit status."""
    end_process(main())


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the locale's encoding lacks are escaped, as Python does on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(arguments, exit_on_error=False, print_error=False)
        print(end="", flush=True)
    except CycloptsError as error:
        words = " ".join(["subtune", *(error.command_chain or ())])
        print(f"{error}\n`{words} --help` lists the options", file=sys.stderr)
        return 2
    except SubtuneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except OSError as error:
        if error.filename:
            raise
        # Discard the remaining output. Otherwise, Python would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the process that reads the pipe has ended
            print(f"cannot write to stdout: {error.strerror}", file=sys.stderr)
            return 1
    return 0


@_command(f"compare {EXAMPLE_TABLES}")
def compare(
    train: Annotated[str, Parameter(metavar="TABLE")],
    *,
    dev: Annotated[float | str | None, Parameter(metavar="TABLE")] = None,
    test: Annotated[str | None, Parameter(metavar="TABLE")] = None,
    revision: str | None = None,
    results: Directory | None = None,
    options: Options = Options(),
    kind: KindOptions = KindOptions(),
) -> None:
    """Compare fine-tuning methods on your data, and name the smallest one that scores well enough.

    Args:
        train: file with the training set, or a dataset on the hub
        dev: file with the dev set, name of a split of the dataset, or share of the training set
            such as 0.2; default: cross-validation
        test: file with the test set, used only for the final scores; default: the dev set
        revision: commit, branch or tag of a dataset on the hub
        results: directory to write the results to; default: a new directory in ./results
    """
    from subtune.comparison import loop, question
    from subtune.exhibits.answer_tables import format_answers

    asked = replace(options, kind=kind.kind)
    clock = loop.TimeLimit.start_now(asked.minutes, is_process=True)
    request = question.normalise_arguments(train, dev, test, revision, asked)
    found = question.run_comparison(request, results, print, clock)
    answers = Layout(str(found.results)).summary("answers", "csv")
    print(format_answers(Path(answers)))


@_command("run weather.yaml -n")
def run(config: SnakemakeArgument, /, *others: SnakemakeArgument) -> None:
    """Train the runs of a configuration with Snakemake.

    Args:
        config: configuration file, such as one that `subtune init` wrote, or --profile demo
        others: targets and options for Snakemake
    """
    from subtune.steps.snakemake_calls import call_snakemake

    # Without a configuration, the first argument is an option for Snakemake.
    words = [config, *others]
    if not config.startswith("-"):
        if not Path(config).is_file():
            raise SubtuneError(
                f"{config}: no such file; to write a configuration, use `subtune init`"
            )
        words[0] = f"--configfile={config}"
    call_snakemake(words)


@_command(f"init {EXAMPLE_TABLES}")
def init(
    train: File,
    *,
    dev: File | None = None,
    test: File | None = None,
    to: File | None = None,
    options: Options = Options(),
    kind: KindOptions = KindOptions(),
) -> None:
    """Write a configuration for your own data.

    Args:
        train: file with the training set
        dev: file with the dev set; default: cross-validation
        test: file with the test set, used only for the final scores; default: the dev set
        to: configuration file to write; default: named after the training file
    """
    from subtune.comparison.first_configuration import format_run_command, write_first_configuration
    from subtune.comparison.user_table import make_task_name
    from subtune.config.checks import read_config

    target = to or Path(f"{make_task_name(train)}.yaml")
    paths = {"train": train, "validation": dev, "test": test}
    for line in write_first_configuration(paths, replace(options, kind=kind.kind), target):
        print(line, flush=True)
    layout = Layout(read_config(target).results)
    print(f"{target} contains these settings, with comments on what you can change. To train:")
    print(f"    {format_run_command(target)}")
    answers, report = layout.summary("answers", "md"), layout.report()
    print(f"The answer will be in {answers}, and a report with all results in {report}")


@_command("look examples/weather-train.csv")
def look(
    train: Path,
    dev: Path | None = None,
    test: Path | None = None,
    /,
    *,
    options: TableOptions = TableOptions(),
    kind: KindOptions = KindOptions(),
    json: bool = False,
) -> None:
    """Describe your tables: classes, lengths of texts, repeated texts, conflicting labels.

    Args:
        train: file with the training set
        dev: file with the dev set
        test: file with the test set
        json: print JSON
    """
    from subtune.comparison.look import look_lines
    from subtune.comparison.own_task import read_tables_and_models

    paths = {"train": train, "validation": dev, "test": test}
    facts, *_ = read_tables_and_models(paths, replace(options, kind=kind.kind))
    if json:
        print(dumps(asdict(facts), indent=2))
    else:
        print(*look_lines(facts), sep="\n")


@_command("params bitfit layernorm --labels 3")
def params(
    *method: str,
    model: Directory | None = None,
    config: File | None = None,
    labels: int = 2,
    json: bool = False,
) -> None:
    """Count the trained parameters of each method.

    Args:
        method: name of a method, 'a,b' for both together, or 'a without b'; default: all methods
        model: directory of a local model; default: the models of the papers
        config: configuration file with your own selections and, if --model is not given, your local
            models
        labels: number of outputs of the classifier; default: 2
        json: print JSON
    """
    from subtune.config.checks import read_config
    from subtune.plan.inputs import local_directory
    from subtune.printing import parameter_lines, parameter_table

    if labels < 1:
        raise SubtuneError(f"--labels: found {labels}, expected at least 1")
    directories, selections = {model.name: model} if model else {}, {}
    if config:
        own = read_config(config)
        selections = own.own_methods
        directories = directories or {
            name: local_directory(source) for name, source in own.models.items() if not source.hub
        }
    counts = parameter_table(method, selections, directories, labels)
    if json:
        _print_json(counts.drop(columns="problem"))
    else:
        print(*parameter_lines(counts), sep="\n")


@_command("check examples/my_rules.py:gem")
def check(place: str, /) -> None:
    """Check your own ranking, estimator, metric or paper, before you use it in an experiment.

    Args:
        place: the ranking, estimator, metric or paper, as in a configuration
    """
    from subtune.config.code_checks import check_code
    from subtune.papers.checks import check_paper, is_paper

    have_failed = False
    for name, result in (check_paper if is_paper(place) else check_code)(place):
        print(f"{name}: {result}", flush=True)
        have_failed |= result.startswith("failed")
    if have_failed:
        raise SubtuneError(f"{place}: not all checks passed")


@_command("plan config.yaml")
def plan(config: Path = Path("config.yaml"), /, *, json: bool = False) -> None:
    """Check a configuration, and estimate its runs, jobs, training time and disk space.

    Args:
        config: configuration file; default: config.yaml
        json: print JSON
    """
    from subtune.config.checks import read_config
    from subtune.papers import experiments_showing_fisher_information
    from subtune.plan.cost import cost_table
    from subtune.printing import plan_lines
    from subtune.steps.context import plan_and_check

    context = plan_and_check(read_config(config))
    estimates = context.estimates
    table = cost_table(estimates, experiments_showing_fisher_information(context.config))
    if json:
        _print_json(table)
    else:
        print(*context.notes, *plan_lines(table, estimates), sep="\n")


@_command("runs --task rte --method bitfit")
def runs(
    *,
    results: Directory | None = None,
    task: str | None = None,
    method: str | None = None,
    json: bool = False,
) -> None:
    """List the recorded runs.

    Args:
        results: results directory; default: ./results, or its only subdirectory with runs
        task: list only runs of this task
        method: list only runs of this method
        json: print JSON
    """
    from subtune.analysis.tables import list_runs

    layout = Layout(str(find_results(results)))
    recorded, problems = list_runs(layout)
    for column, wanted in (("task", task), ("method", method)):
        if wanted is not None and len(recorded):
            names = sorted(set(recorded[column]))
            if wanted not in names:
                raise SubtuneError(f"--{column}: {format_allowed(wanted, names)}")
            recorded = recorded[recorded[column] == wanted]
    if json:
        _print_json(recorded)
    elif len(recorded):
        shown = recorded.dropna(axis="columns", how="all").astype(object)
        shown = shown.where(shown.notna(), None)
        # Other people may have written the records, so names in the records are escaped.
        print(escape_control_characters(shown.to_markdown(index=False, missingval="")))
    elif not problems:
        raise SubtuneError(f"{layout.records()}: no recorded runs; use another --results directory")
    if problems:
        raise SubtuneError("\n".join(problems))


@_command("verify")
def verify(*, results: Directory | None = None) -> None:
    """Check that the records of runs are complete and undamaged.

    Args:
        results: results directory; default: ./results, or its only subdirectory with runs
    """
    from subtune.runs import records

    layout = Layout(str(find_results(results)))
    damage, paths = records.find_damage(layout)
    if damage:
        raise SubtuneError(
            "\n".join(damage.values())
            + f"\n{len(damage):,} run(s) have a damaged or missing record. To retrain those that "
            "are still in the configuration, run this command, then snakemake:\n"
            + shlex.join(["rm", "-r", *map(str, paths)])
        )
    stored = records.list_stored_ids(layout)
    if not stored:
        raise SubtuneError(f"{layout.records()}: no recorded runs; use another --results directory")
    print(f"{layout.records()}: {len(stored):,} record(s), no problems found")


@_command("export bitfit --to my-model")
def export(
    run: str,
    /,
    *,
    to: Directory,
    results: Directory | None = None,
    adapter: bool = False,
    minutes: float = DEFAULT_MINUTES,
) -> None:
    """Export the model of a run for transformers or PEFT.

    Args:
        run: id of the run, its first digits, or a method of a comparison, such as bitfit
        to: new directory for the model
        results: results directory; default: ./results, or its only subdirectory with runs
        adapter: write the trained LoRA weights, norms or PEFT modules as a PEFT adapter
        minutes: time limit for retraining a cross-validation run on all examples; default: 10
    """
    from subtune.core.files import require_new

    require_new(to)
    layout, found = _find_run(results, run)
    # Importing transformers takes seconds.
    from subtune.share.export import export_model

    exported = export_model(layout, found, to, minutes, adapter)
    print(f"run {exported} was exported to {to}")


@_command("predict bitfit table.csv --to predictions.csv")
def predict(
    run: str,
    table: Path,
    /,
    *,
    to: File,
    results: Directory | None = None,
    text: ColumnArgument | None = None,
    text2: ColumnArgument | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    minutes: float = DEFAULT_MINUTES,
) -> None:
    """Predict the labels of the rows of a table with the model of a run.

    Args:
        run: id of the run, its first digits, or a method of a comparison, such as bitfit
        table: file with the texts, in any format that `compare` reads; labels are ignored
        to: new CSV file for the predictions
        results: results directory; default: ./results, or its only subdirectory with runs
        text: column of the texts; default: the same name as in training
        text2: column of the second texts, if texts are pairs
        encoding: encoding of the table, such as latin-1; default: UTF-8 or UTF-16
        sheet: sheet of an Excel file; default: the first
        minutes: time limit for retraining a cross-validation run on all examples; default: 10
    """
    if Path(run).is_dir():
        raise SubtuneError(
            f"{run}: this is a directory, expected a run id (to use an exported model, see its "
            "README.md)"
        )
    from subtune.share.predict import predict_table

    layout, found = _find_run(results, run)
    rows = predict_table(layout, found, table, to, (text, text2), encoding, sheet, minutes)
    print(f"{rows:,} rows were written to {to}")


def _find_run(results: Path | None, run: str) -> tuple[Layout, str]:
    """Find a run by the beginning of its id or, after a comparison, by the name of its method.

    The paths of the results and the run's id are returned.
    """
    from subtune.comparison.results import Comparison
    from subtune.runs import records

    # The config of an adapter contains the absolute path of a local base model.
    layout = Layout(str(find_results(results).resolve()))
    if all(character in "0123456789abcdef" for character in run):
        return layout, records.find_run_id(Path(layout.records()), run)
    if not Path(layout.summary("answers", "csv")).is_file():
        raise SubtuneError(
            f"{layout.results}: found no answer of a comparison, so {run!r} cannot be a method; "
            "run `subtune compare` first, give a run id, or use another --results directory"
        )
    return layout, Comparison(Path(layout.results)).best_run(run)


def _print_json(table: "pd.DataFrame") -> None:
    print(table.to_json(orient="records", indent=2, double_precision=15))
