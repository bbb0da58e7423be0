"""Judge the answers of replayed comparisons by the scores on the test sets."""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.decisions.recorded import WHOLE, RecordedTable, with_recommended_rate
from benchmarks.decisions.replay import (
    Moment,
    Policy,
    Replay,
    order_seeds,
    replay,
    seconds_of_training,
)
from subtune.analysis.answer import Answer
from subtune.analysis.candidates import POSSIBLE
from subtune.config.schema import MARGIN
from subtune.methods import FULL
from subtune.runs.spec import FitRecipe, PlannedRun

MINUTES = (1, 2, 4, 7, 10, 20)
# Decisions that a method is enough, and that full fine-tuning is worth it.
ENOUGH, WORTH = ("train", "probably"), ("everything", "probably everything")
# The number of orders of seeds.
ORDERS = 20
# Kinds of runs, whose seconds and changes of the answer are counted.
KINDS = ("baselines", "first runs", "seeds", "rates")
# The number of bootstrap samples of tables, for intervals.
SAMPLES = 1000
FEWEST_TABLES = 5


class Verdict(NamedTuple):
    """The method that an answer names, or an empty string, and the answer's decision."""

    method: str
    decision: str


def read_verdict(answer: Answer) -> Verdict:
    methods = dict(answer.runs[["title", "method"]].itertuples(index=False))
    decision, candidate = answer.decision or "", answer.candidate
    if decision in WORTH:
        return Verdict(methods[answer.compared.reference], decision)
    named = candidate is not None and decision in ENOUGH
    return Verdict(methods[candidate.title] if candidate and named else "", decision)


def read_true_scores(table: RecordedTable) -> dict[str, float]:
    """Average the test scores of each method over all seeds or folds.

    Of the learning rates that are recorded for all of them, the rate with the best mean dev score
    is used.
    """
    scores = defaultdict[str, dict[float | None, list[tuple[float, float]]]](dict)
    planned = table.plans[WHOLE]
    largest = max(run.train_rows for run in planned)
    for run in planned:
        for rate in table.recorded_rates[run.method] if run.train_rows == largest else ():
            spec = run.spec.with_learning_rate(rate) if rate else run.spec
            if recorded := table.runs.get(spec.id):
                test = recorded.about["test"].get(table.metric, math.nan)
                both = recorded.about["score"], test
                scores[run.method].setdefault(rate, []).append(both)
    found = {}
    for method, by_rate in scores.items():
        most = max(map(len, by_rate.values()))
        means = [np.mean(both, 0) for both in by_rate.values() if len(both) == most]
        scored = [both for both in means if not np.isnan(both).any()]
        found[method] = float(max(scored, key=lambda both: both[0])[1]) if scored else math.nan
    return found


def is_true(verdict: Verdict, truth: Mapping[str, float]) -> bool:
    """Return whether the named method is truly within the margin of full fine-tuning.

    This is judged against full fine-tuning, even if the answer has another reference.
    *Full is worth it* is true if no other method is within the margin.
    """
    lowest = truth[FULL] - MARGIN
    if verdict.decision in WORTH:
        return not any(score >= lowest for name, score in truth.items() if name != verdict.method)
    return truth[verdict.method] >= lowest


def contradict(first: Answer, second: Answer) -> bool:
    """Return whether somebody who acted on one answer is told the opposite by the other.

    *Full is worth it* contradicts an answer that names a smaller method. Two answers that name
    different smaller methods contradict each other if, in one of them, the method that the other
    names has a probability below `POSSIBLE`.
    """
    one, other = read_verdict(first), read_verdict(second)
    if "" in (one.method, other.method) or one.method == other.method:
        return False
    if (one.decision in WORTH) != (other.decision in WORTH):
        return True
    pairs = ((first, second.candidate), (second, first.candidate))
    chances = [
        answer.compared.methods[named.title].chance
        for answer, named in pairs
        if named and named.title in answer.compared.methods
    ]
    return any(chance < POSSIBLE for chance in chances)


def measure(
    table: RecordedTable, policy: Policy, orders: Sequence[Sequence[int]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each order of seeds and each number of minutes that is recorded."""
    truth = read_true_scores(table)
    settings = find_settings(table, policy)
    for order in orders:
        found: dict[int, dict[str, Any]] = {}
        replays = {
            plan: replay(table, order_seeds(planned, order), policy, longest)
            for plan, planned, longest in list_replayed_plans(table, policy)
        }
        for minutes in filter(settings.__contains__, MINUTES):
            plan = settings[minutes]
            replayed, end = replays[plan], seconds_of_training(minutes)
            moments = [moment for moment in replayed.moments if moment.seconds <= end]
            if replayed.known >= end:
                kinds = measure_kinds(table, replayed, end)
                found[minutes] = judge(moments, truth) | kinds | {"minutes": minutes}
        last, oracles = found.get(MINUTES[-1]), dict[tuple[str, str], float]()
        for row in found.values():
            plan, method = settings[row["minutes"]], row["method"]
            if method not in ("", FULL) and (plan, method) not in oracles:
                planned = order_seeds(table.plans[plan], order)
                oracles[plan, method] = find_oracle_seconds(table, policy, planned, method)
            oracle = oracles.get((plan, method), math.nan)
            row["oracle_share"] = oracle / (row["seconds_to_final"] or math.nan)
            about = {"table": table.name, "order": str(order)}
            against = None
            if last and row["answer"] and last["answer"]:
                against = contradict(row["answer"], last["answer"])
            values = {name: value for name, value in row.items() if name != "answer"}
            yield values | about | {"contradicts_longest": against}


def list_replayed_plans(
    table: RecordedTable, policy: Policy
) -> Iterator[tuple[str, Sequence[PlannedRun], int]]:
    """Yield the name and the runs of each plan of a policy, and its largest number of minutes."""
    longest = {plan: minutes for minutes, plan in sorted(find_settings(table, policy).items())}
    for plan, minutes in longest.items():
        kept = [run for run in table.plans[plan] if run.method not in policy.without]
        yield plan, kept, minutes


def find_settings(table: RecordedTable, policy: Policy) -> Mapping[int, str]:
    """Map numbers of minutes to the names of the policy's plans."""
    if policy.settings == WHOLE:
        return dict.fromkeys(MINUTES, WHOLE)
    return table.settings[policy.settings]


def find_oracle_seconds(
    table: RecordedTable, policy: Policy, planned: Sequence[PlannedRun], method: str
) -> float:
    """Return the seconds until the answer is ``method`` if only it and full fine-tuning train.

    Nobody knows this method in advance. All learning rates are the recommended ones. If the answer
    does not follow from these runs, the seconds are NaN.
    """
    fixed = [with_recommended_rate(run) for run in planned if run.method in (FULL, method)]
    moments = replay(table, fixed, policy, MINUTES[-1]).moments
    named = (m.seconds for m in moments if read_verdict(m.answer).method == method)
    return next(named, math.nan)


def judge(moments: Sequence[Moment], truth: Mapping[str, float]) -> dict[str, Any]:
    """Judge the last answer of a call, and compare it with the answers before it."""
    verdicts = [read_verdict(moment.answer) for moment in moments]
    names = [verdict.method for verdict in verdicts]
    last = verdicts[-1] if verdicts else Verdict("", "")
    answer = moments[-1].answer if moments else None
    kept = len([*itertools.takewhile(last.method.__eq__, reversed(names))])
    return {
        "answer": answer,
        "method": last.method,
        "decision": last.decision,
        "answered": bool(last.method),
        "true": is_true(last, truth) if last.method else None,
        "full_true": is_true(last, truth) if last.decision in WORTH else None,
        "contradicts": any(contradict(moment.answer, moments[-1].answer) for moment in moments),
        "renames": len({*names} - {""}) > 1,
        # Without an answer, there is no such time.
        "seconds_to_final": moments[names.index(last.method)].seconds if last.method else None,
        "seconds_to_kept": moments[-kept].seconds if last.method else None,
    }


def measure_kinds(table: RecordedTable, replayed: Replay, end: float) -> dict[str, Any]:
    """Measure the seconds of each kind of run that ended in time, and the changes that it caused.

    A change is an answer that names another method than the answer before it, or none.
    """
    seconds, changes, first = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0), set[tuple]()
    kinds = dict[float, str]()
    for ended, run, spent in replayed.ended:
        kind = "seeds"
        if isinstance(run.spec.recipe, FitRecipe):
            kind = "baselines"
        elif run.spec.id not in table.recommended_runs:
            kind = "rates"
        elif run.setting not in first:
            kind = "first runs"
            first.add(run.setting)
        if ended <= end:
            seconds[kind] += spent
            kinds[ended] = kind
    in_time = [moment for moment in replayed.moments if moment.seconds <= end]
    for earlier, later in itertools.pairwise(in_time):
        if read_verdict(earlier.answer).method != read_verdict(later.answer).method:
            changes[kinds[max(ended for ended in kinds if ended <= later.seconds)]] += 1
    return {"seconds": seconds, "changes": changes}


def list_orders(number: int) -> list[list[int]]:
    """List orders of five seeds. All begin with the same seed, whose searches are recorded."""
    orders = [[0, *rest] for rest in itertools.permutations(range(1, 5))]
    random.Random(0).shuffle(orders)
    return orders[:number]


def summarise(rows: pd.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Map each policy and number of minutes to shares of calls, with intervals.

    ``answered`` is the share of calls that end with an answer, ``true`` the share of these answers
    that are true, ``full_true`` the share of true ones among answers that full fine-tuning is worth
    it, ``contradicts`` the share of calls whose answer contradicts an earlier answer of
    the call, ``contradicts_longest`` the answer of the longest call, ``renames`` the share of calls
    that name several methods, ``seconds_to_final`` the mean seconds until the last answer was first
    given, ``seconds_to_kept`` until it was given for good, and ``oracle_share`` the mean ratio of
    `find_oracle_seconds`, if known, to ``seconds_to_final``. ``seconds`` and ``changes`` are means
    of `measure_kinds`. Intervals are from bootstrap samples of tables, if there are at least
    `FEWEST_TABLES`. Only calls that are known for all policies are counted.
    """
    policies = rows["policy"].nunique()
    rows = rows[rows.groupby(["table", "order", "minutes"])["policy"].transform("size") == policies]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (policy, minutes), own in rows.groupby(["policy", "minutes"], sort=False):
        values: dict[str, Any] = {"tables": own["table"].nunique(), "calls": len(own)}
        for name in MEANS:
            values[name] = _mean(own[name])
            values[f"{name}_interval"] = _bootstrap(own, name)
        for name in ("seconds", "changes"):
            values[name] = pd.DataFrame([*own[name]]).mean().round(2).to_dict()
        found.setdefault(str(policy), {})[str(minutes)] = values
    return found


SHARES = (
    "answered",
    "true",
    "full_true",
    "contradicts",
    "contradicts_longest",
    "renames",
    "oracle_share",
)
MEANS = (*SHARES, "seconds_to_final", "seconds_to_kept")


def _mean(values: pd.Series) -> float | None:
    known = values.dropna().astype(float)
    return round(float(known.mean()), 4) if len(known) else None


def _bootstrap(rows: pd.DataFrame, column: str) -> list[float] | None:
    """Compute the 95 % interval of a mean over calls, from samples of tables."""
    known = rows.dropna(subset=[column])
    sums = known.astype({column: float}).groupby("table")[column].agg(["sum", "count"]).to_numpy()
    if len(sums) < FEWEST_TABLES:
        return None
    drawn = np.random.default_rng(0).integers(len(sums), size=(SAMPLES, len(sums)))
    totals = sums[drawn].sum(1)
    ends = np.quantile(totals[:, 0] / totals[:, 1], [0.025, 0.975])
    return [round(float(end), 4) for end in ends]
