"""The `subtune` command."""

import argparse
import contextlib
import io
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune import __version__, config
from subtune.config.schema import MARGIN
from subtune.core.errors import SubtuneError, listed, one_of, printable
from subtune.core.jobs import skip_final_garbage_collection
from subtune.core.layout import Layout

if TYPE_CHECKING:
    import pandas as pd

    from subtune.init.first_configuration import Request

# A function that adds an argument to a subcommand.
Add = Callable[..., Any]


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.command not in (_run, _demo):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others = others
    skip_final_garbage_collection()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale may lack characters; standard error escapes them by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options.command(options)
        print(end="", flush=True)
    except SubtuneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except OSError as error:
        if error.filename:
            raise
        # Otherwise Python reports the error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader of a pipe has closed it
            print(f"cannot write standard output: {error.strerror}", file=sys.stderr)
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="subtune", description=__doc__)
    parser.add_argument("--version", action="version", version=f"subtune {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(function: Callable[[Namespace], None], does: str, example: str) -> Add:
        """Add a subcommand, which is the first word of its example."""
        epilog = f"example: subtune {example}"
        added = commands.add_parser(example.split()[0], help=does, description=does, epilog=epilog)
        added.set_defaults(command=function)
        return added.add_argument

    files = "--train examples/weather-train.csv --dev examples/weather-dev.csv"
    does = "train methods on your tables, and name the one worth training"
    add = command(_compare, does, f"compare {files}")
    add("--train", required=True, help="a table's file, or a dataset on the hub")
    judging = "default: folds of the training rows"
    add("--dev", help=f"another file, a split's name, or a share such as 0.2; {judging}")
    add("--test", help="a file of test rows; default: --dev rows give the scores")
    add("--revision", help="commit, branch or tag of a dataset on the hub")
    add("--results", type=Path, help="default: a new directory below results")
    _add_columns(add)
    _add_limits(add)

    add = command(_run, "call Snakemake; its targets and options follow", "run weather.yaml -n")
    add("config", type=Path, help="a configuration, such as `init` writes")

    command(_demo, "run the papers' experiments on a laptop; needs subtune[demo]", "demo -n")

    add = command(_init, "write a configuration for your own tables", f"init {files}")
    add("--train", required=True, type=Path, help="a table's file")
    add("--dev", type=Path, help=f"a file of dev rows; {judging}")
    add("--test", type=Path, help="a file of test rows; default: --dev rows give the scores")
    add("--to", type=Path, metavar="FILE", help="default: the task's name + .yaml")
    _add_columns(add)
    _add_limits(add)

    does = "count what is in your tables: classes, lengths, repeats, conflicting labels"
    add = command(_look, does, "look examples/weather-train.csv examples/weather-dev.csv")
    add("train", type=Path, help="a table's file")
    add("dev", nargs="?", type=Path, help="a file of dev rows")
    add("test", nargs="?", type=Path, help="a file of test rows")
    _add_columns(add)
    _add_json(add)

    add = command(_check, "check a configuration, without running anything", "check config.yaml")
    _add_config(add)

    command(_schema, "print the configuration's JSON schema", "schema")

    does = "count the parameters that each method trains"
    add = command(_params, does, "params bitfit layernorm --labels 3")
    add("method", nargs="*", help="a name, 'a,b' or 'a without b'; default: all")
    add("--model", type=Path, help="a local model; default: the papers' models")
    add("--config", type=Path, help="a configuration with selections of your own")
    add("--labels", type=int, default=2, help="outputs of the classifier; default: 2")
    _add_json(add)

    does = "count runs, jobs, hours and disk, and what is recorded so far"
    add = command(_plan, does, "plan config.yaml")
    _add_config(add)
    _add_json(add)

    add = command(_runs, "list the recorded runs", "runs --task rte --method bitfit")
    _add_results(add)
    add("--task", help="only this task's runs")
    add("--method", help="only this method's runs")
    _add_json(add)

    add = command(_verify, "check that records are undamaged", "verify --repair")
    _add_results(add)
    repairs = "move damaged records away, so that snakemake trains them again"
    add("--repair", action="store_true", help=repairs)

    does = "write a run's model, for transformers or PEFT"
    add = command(_export, does, "export 42ae38 --to my-model")
    add("run", help="the run's id, or its first digits")
    add("--to", type=Path, required=True, metavar="DIR", help="a new directory")
    add("--results", type=Path, help="directory; default: that of --config, or results")
    does = "configuration of a cross-validated run, whose method is trained on all rows"
    add("--config", type=Path, help=does)
    add("--adapter", action="store_true", help="write a LoRA run as PEFT adapter")

    does = "predict a table's rows with an exported model"
    add = command(_predict, does, "predict my-model table.csv --to predictions.csv")
    add("model", type=Path, help="a folder that `export` has written")
    add("table", type=Path, help="a file in a training format; its labels are not read")
    add("--to", type=Path, required=True, metavar="FILE", help="a new CSV file")
    add("--text", metavar="COLUMN", help="default: as in training")
    add("--text2", metavar="COLUMN", help="column of the second text of a pair")
    add("--encoding", help="the table's encoding, such as latin-1; default: UTF-8 or -16")
    add("--sheet", help="sheet of an Excel file; default: the first")
    add("--base", type=Path, metavar="DIR", help="an adapter's base model, if it has moved")
    return parser


def _add_columns(add: Add) -> None:
    add("--text", metavar="COLUMN", help="column of the text; default: a guess")
    add("--text2", metavar="COLUMN", help="column of the second text of a pair")
    does = "column of the label, or several of 0 and 1 as in toxic,insult; default: a guess"
    add("--label", metavar="COLUMN", help=does)
    for option, kind, has in (
        ("--classes", "classification", "one class"),
        ("--multilabel", "multilabel", "any number of labels"),
        ("--regression", "regression", "a number"),
    ):
        does = f"each text has {has}; default: a guess"
        add(option, dest="kind", action="store_const", const=kind, help=does)
    add("--model", help="a directory, a package, or a repository on the hub")
    add("--encoding", help="the files' encoding, such as latin-1; default: UTF-8 or -16")
    add("--sheet", help="sheet of Excel files; default: the first")
    does = "merge labels that differ only in capitals or invisible characters"
    add("--merge-labels", action="store_true", help=does)


def _add_limits(add: Add) -> None:
    add("--minutes", type=float, default=10, help="time for everything; default: 10")
    does = f"loss of score against full fine-tuning that you can afford; default: {MARGIN}"
    add("--margin", type=float, default=MARGIN, help=does)


def _add_config(add: Add) -> None:
    default = Path("config.yaml")
    add("config", nargs="?", default=default, type=Path, help=f"default: {default}")


def _add_json(add: Add) -> None:
    add("--json", action="store_true", help="print JSON, for programs")


def _add_results(add: Add) -> None:
    add("--results", type=Path, default=Path("results"), help="directory; default: results")


def _compare(options: Namespace) -> None:
    from subtune.exhibits.answers import answers_in_lines
    from subtune.interface.comparison import compare

    given = {n: value for n, value in vars(options).items() if n not in ("command", "others")}
    text = tuple(filter(None, (given.pop("text"), given.pop("text2"))))
    with contextlib.suppress(TypeError, ValueError):
        given["dev"] = float(given["dev"])
    found = compare(**given, text=text, say=print)
    answers = Layout(str(found.results)).summary("answers", "csv")
    print(answers_in_lines(Path(answers)))
    print(f"Everything on one page: {found.report}")


def _run(options: Namespace) -> None:
    from subtune.interface.workflow import call_snakemake

    if not options.config.is_file():
        raise SubtuneError(f"found no configuration file {str(options.config)!r}")
    call_snakemake([f"--configfile={options.config}", *options.others])


def _demo(options: Namespace) -> None:
    from subtune.interface.workflow import call_snakemake

    call_snakemake(["--profile", "demo", *options.others])


def _init(options: Namespace) -> None:
    from subtune.init.first_configuration import init, next_steps

    request = _request(options)
    for line in chain(init(request), next_steps(request.target)):
        print(line, flush=True)


def _look(options: Namespace) -> None:
    from subtune.init.first_configuration import look
    from subtune.init.messages import look_lines

    found = look(_request(options)).look
    print(json.dumps(asdict(found), indent=2) if options.json else "\n".join(look_lines(found)))


def _request(options: Namespace) -> "Request":
    from subtune.init.first_configuration import Request

    return Request(**{n: getattr(options, n) for n in Request._fields if hasattr(options, n)})


def _check(options: Namespace) -> None:
    from subtune.hub import UnreachableError
    from subtune.stages import plan_file

    data = config.parsed(options.config)
    checked = config.check(data)
    experiments = f"{options.config}: {len(checked.experiments)} experiment(s)"
    try:
        plan = plan_file.current(data)
    except UnreachableError as error:
        print(f"{experiments}, no problems found, but not everything could be checked: {error}")
        return
    for line in plan.notes:
        print(line)
    runs = sum(len(sweep.spec["runs"]) for sweep in plan.stages["train"].values())
    print(f"{experiments}, {runs:,} run(s), no problems found")


def _schema(options: Namespace) -> None:
    print(json.dumps(config.Config.model_json_schema(), indent=2))


def _params(options: Namespace) -> None:
    import pandas as pd

    from subtune.families.base import SEQUENCE_CLASSIFICATION
    from subtune.models import dimensions
    from subtune.models.files import sequence_head
    from subtune.selections.methods import COMBINATIONS, METHODS, named

    if options.labels < 1:
        raise SubtuneError(f"--labels: found {options.labels}, expected at least 1")
    selections = config.read(options.config).selections if options.config else {}
    models: dict[str, dimensions.AnyDimensions] = {
        name: dimensions.dimensions_by(fields)
        for name, fields in dimensions.papers_models().items()
    }
    head = SEQUENCE_CLASSIFICATION
    if options.model:
        models = {options.model.name: dimensions.dimensions_in(options.model)}
        head = sequence_head(options.model)
    methods = options.method or [*METHODS, *COMBINATIONS, *selections]
    counts = pd.concat(
        dimensions.parameter_counts(
            {name: model},
            {method: named(method, selections, name) for method in methods},
            options.labels,
            head,
        )
        for name, model in models.items()
    )
    if options.json:
        _print_json(counts.drop(columns="problem"))
        return
    lacking = counts.dropna(subset="problem").groupby("problem", sort=False)["method"].unique()
    if counts["problem"].notna().all():
        raise SubtuneError("\n".join(lacking.index))
    counts["count"] = [
        "–" if pd.isna(count) else f"{count:,} ({share:.3%})"
        for count, share in zip(counts["parameters"], counts["share"], strict=True)
    ]
    by_model = counts.pivot(index="method", columns="model", values="count")
    print(by_model.loc[counts["method"].unique(), [*models]].to_markdown(disable_numparse=True))
    classifiers = counts.drop_duplicates("model").set_index("model")["classifier"]
    sizes = ", ".join(f"{size:,} in {model}" for model, size in classifiers.items())
    print(f"\nCounted with the classifier, which always trains: {sizes}.")
    print("Shares in parentheses are of the pretrained parameters, without the classifier.")
    for problem, names in lacking.items():
        print(f"\n– {', '.join(names)}: {problem}")
    if not options.model or len(methods) > 1:
        return
    selection = named(methods[0], selections, options.model.name)
    tensors = pd.DataFrame(
        {
            "tensor": row.tensor + (f" × {row.times}" if row.times > 1 else ""),
            "in transformers": "" if row.own == row.tensor else row.own,
            "shape": " × ".join(map(str, row.shape)),
            "trains": f"{row.trains:,}" + ("" if row.how == "whole" else f" ({row.how})"),
        }
        for row in dimensions.tensors_of(selection, options.model, options.labels).itertuples()
    )
    print(f"\n{tensors.to_markdown(index=False, disable_numparse=True)}")


def _print_json(table: "pd.DataFrame") -> None:
    print(table.to_json(orient="records", indent=2, double_precision=15))


def _plan(options: Namespace) -> None:
    import pandas as pd

    from subtune.papers.experiments import with_information, with_papers
    from subtune.planning.cost import Estimates, cost_table, measured
    from subtune.planning.plan import plan
    from subtune.runs.records import is_recorded

    checked = with_papers(config.read(options.config))
    planned = plan(checked)
    estimates = Estimates(checked, planned)
    table = cost_table(checked, planned, estimates, with_information(checked))
    if options.json:
        _print_json(table)
        return
    formats = ["", "", "", "", ".2e", ".2e", ",.1f", ",.1f"]
    print(table.to_markdown(index=False, floatfmt=formats, numalign="right", disable_numparse=[0]))
    jobs = [estimates.sweep(sweep).seconds for sweep in planned.sweeps]
    jobs += [estimates.search_job(job).seconds for job in planned.search_jobs]
    longest = max(jobs) / 3600
    largest = max(estimates.checkpoints(sweep) for sweep in planned.sweeps) / 1e9
    print(
        f"\nThe longest job takes {longest:,.1f} hours; checkpoints take up to {largest:,.2f} GB "
        "per job\nwhile it runs. Assumed, under `assumptions` in the configuration:\n"
    )
    assumptions = pd.Series(checked.assumptions.model_dump(exclude={"pace"}))
    for kind, pace in estimates.paces.items():
        each = f"{pace.per_layer:.3g} ms per layer, {pace.per_teraflop:.3g} s per 10¹² operations"
        if pace.per_billion_trained:
            each += f", {pace.per_billion_trained:.3g} s per 10⁹ trained numbers"
        assumptions[f"pace of {kind}"] = each
    assumptions = assumptions.rename_axis("assumption").reset_index(name="value")
    print(assumptions.to_markdown(index=False))
    for location in estimates.unknown_models:
        print(f"\n{location} is not known before it is downloaded: counted as bert-large-cased.")
    layout = Layout(checked.results)
    recorded = sum(is_recorded(Path(layout.records()), run) for run in planned.runs)
    print(f"\nRecorded so far: {recorded:,} of {len(planned.runs):,} runs.")
    if past := measured(layout, planned.sweeps, estimates):
        took, expected = sum(row[1] for row in past), sum(row[2] for row in past)
        print(
            f"{len(past)} of {len(planned.sweeps)} sweeps are done. They took {took:,.0f} s, "
            f"{took / expected:.2f} times the estimate."
        )


def _runs(options: Namespace) -> None:
    from subtune.runs import tables

    store = Path(Layout(str(options.results)).records())
    runs, problems = tables.recorded_runs(store, tables.given_names(str(options.results)))
    for column in ("task", "method"):
        wanted_value = getattr(options, column)
        if wanted_value is not None and len(runs):
            if wanted_value not in set(runs[column]):
                raise SubtuneError(f"--{column}: {one_of(wanted_value, sorted(set(runs[column])))}")
            runs = runs[runs[column] == wanted_value]
    if options.json:
        _print_json(runs)
    elif len(runs):
        # Records, and the names in them, may come from elsewhere.
        print(printable(runs.to_markdown(index=False)))
    elif not problems:
        raise SubtuneError(f"found no runs in {store}")
    if problems:
        raise SubtuneError("\n".join(problems))


def _verify(options: Namespace) -> None:
    from subtune.runs import records

    layout = Layout(str(options.results))
    runs = records.stored_names(layout)
    damage = records.find_damage(layout)
    if not damage:
        if not runs:
            raise SubtuneError(f"found no runs in {layout.records()}")
        print(f"{layout.records()}: {len(runs):,} record(s), no problems found")
        return
    for line in damage.values():
        print(line, file=sys.stderr)
    if not options.repair:
        raise SubtuneError(
            f"{len(damage):,} record(s) are damaged or missing; --repair sets them aside, to be "
            "trained again"
        )
    if places := records.set_aside(layout, damage):
        print(f"set aside in {layout.damaged()}: {', '.join(path.name for path in places)}")
    print("Call snakemake as before. It trains these runs again, if they are still configured:")
    print(", ".join(damage))


def _export(options: Namespace) -> None:
    from subtune.core.layout import require_new
    from subtune.interface.comparison import CONFIGURATION
    from subtune.interface.workflow import run_to_export
    from subtune.runs import records

    require_new(options.to)
    named = config.read(options.config).results if options.config else "results"
    place = options.results or Path(named)
    run = records.find(Path(Layout(str(place)).records()), options.run)
    results = place.resolve()
    own = results / CONFIGURATION
    usual = own if own.is_file() else Path("config.yaml")
    run = run_to_export(place, run, options.config or usual)
    # Loads transformers, which takes seconds.
    from subtune.exhibits.model_card import model_card
    from subtune.runs import export

    write = export.export_adapter if options.adapter else export.export_model
    # An adapter names its local base by an absolute path.
    layout = Layout(str(results))
    write(layout, run, options.to, partial(model_card, layout, run, options.to.name))
    print(f"run {run} is in {options.to}")


def _predict(options: Namespace) -> None:
    import pandas as pd

    from subtune.runs import predict
    from subtune.tasks.formats import ending_of

    predict.require_csv(options.to)
    spec = predict.exported_spec(options.model)
    task = spec.tokens.data.task.replaced(encoding=options.encoding, sheet=options.sheet)
    given = options.text, options.text2
    if any(given):
        if task.of_kind.text or (options.text2 and len(task.text) < 2):
            raise SubtuneError(f"--text, --text2: the model reads {listed(task.text)} alone")
        names = zip(given, task.text, strict=False)
        task = task.replaced(text=tuple(new or old for new, old in names))
    if ending_of(options.table) not in (formats := task.of_kind.formats):
        raise SubtuneError(f"{options.table}: {one_of(options.table.suffix, formats)}")
    rows = list(task.of_kind.read(task, options.table, labelled=False))
    table = pd.DataFrame([row for _, row in rows])
    predict.require_new_columns(table, task, options.table)
    found = predict.predict(options.model, spec, task, rows, str(options.table), options.base)
    predict.write(table, found, options.to)
    print(f"{len(table):,} rows are in {options.to}")
