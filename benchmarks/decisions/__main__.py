"""Measure how soon `subtune.compare` gives an answer, and how often the answer is true.

    python -m benchmarks.decisions replay

Tables are trained out once: all methods, five seeds or folds, and learning-rate searches. A replay
runs the loop of `compare` on these records, with a clock that advances by recorded seconds.
``record`` trains the missing runs of all tables:

    python -m benchmarks.decisions record --glue-dir data/glue --ud-ewt-dir data/ud_ewt --minutes 60

``call`` calls `compare` itself on other tables, and compares its answers with test scores.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.decisions.measures import (
    KINDS,
    MEANS,
    ORDERS,
    SHARES,
    list_orders,
    measure,
    summarise,
)
from benchmarks.decisions.policies import POLICIES
from benchmarks.decisions.recorded import ENDING, RECORDS, read_table
from benchmarks.decisions.tables import TABLES, UNSEEN, Source


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decisions", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser("replay", help="replay comparisons from the records")
    replay.add_argument("--json", action="store_true", help="print JSON")
    replay.add_argument("--orders", type=int, default=ORDERS, help="orders of seeds (default: 20)")
    replay.add_argument("--policies", nargs="+", choices=POLICIES, default=["before", "now"])
    record = commands.add_parser("record", help="train the runs that are not recorded yet")
    record.add_argument("--minutes", type=float, default=60, help="start no run after MINUTES")
    call = commands.add_parser("call", help="call `compare` on tables that are not recorded")
    for command in (record, call):
        command.add_argument("--glue-dir", type=Path, required=True, help="GLUE, official layout")
        command.add_argument("--ud-ewt-dir", type=Path, required=True, help="UD English EWT")
        command.add_argument("--to", type=Path, default=Path("results/decisions"))
    recorded = [path.name.removesuffix(ENDING) for path in sorted(RECORDS.glob(f"*{ENDING}"))]
    for command, known in ((replay, recorded), (record, TABLES), (call, UNSEEN)):
        command.add_argument(
            "--tables",
            nargs="+",
            choices=known,
            default=[*known],
            metavar="TABLE",
            help="only these tables (default: all)",
        )
    options = parser.parse_args()
    if options.command == "replay":
        found = replay_tables(options.tables, options.policies, options.orders)
        print(json.dumps(found, indent=2) if options.json else format_tables(found))
        return
    # Training needs torch, which takes seconds to import.
    source = Source(options.glue_dir, options.ud_ewt_dir)
    if options.command == "record":
        from benchmarks.decisions.record import record_tables

        lines = record_tables(options.tables, source, options.to, 60 * options.minutes)
    else:
        from benchmarks.decisions.call import call_tables

        lines = call_tables(options.tables, source, options.to)
    for line in lines:
        print(line, flush=True)


def replay_tables(
    names: Sequence[str], policies: Sequence[str], orders: int
) -> dict[str, dict[str, dict[str, Any]]]:
    """Replay all comparisons, one table in each process, and summarise them."""
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(_replay_table, name, policies, orders) for name in names]
        rows = [row for job in jobs for row in job.result()]
    return summarise(pd.DataFrame(rows))


def format_tables(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Format the result of `replay_tables` as two Markdown tables."""
    shares, kinds = [], []
    for policy, by_minutes in found.items():
        for minutes, values in by_minutes.items():
            call = {"policy": policy, "minutes": minutes}
            means = {name.replace("_", " "): _format_mean(values, name) for name in MEANS}
            shares.append(call | {"tables": values["tables"], "calls": values["calls"]} | means)
            bought = {
                kind: f"{values['seconds'][kind]:.0f} s, {values['changes'][kind]:.2f}"
                for kind in KINDS
            }
            kinds.append(call | bought)
    tables = (
        pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
        for rows in (shares, kinds)
    )
    return "\n\n".join(tables)


def _format_mean(values: Mapping[str, Any], name: str) -> str:
    """Format a mean with its interval: shares in percent, times in seconds."""
    if values[name] is None:
        return "–"
    factor = 100 if name in SHARES else 1
    mean, *ends = (factor * v for v in (values[name], *(values[f"{name}_interval"] or ())))
    return f"{mean:.0f}" + (f" ({ends[0]:.0f} to {ends[1]:.0f})" if ends else "")


def _replay_table(name: str, policies: Sequence[str], orders: int) -> list[dict[str, Any]]:
    table = read_table(RECORDS / f"{name}{ENDING}")
    return [
        row | {"policy": policy}
        for policy in policies
        for row in measure(table, POLICIES[policy], list_orders(orders))
    ]


if __name__ == "__main__":
    main()
