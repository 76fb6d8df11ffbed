"""How far off ``dse predict`` is without ``--stack``, where nobody says with which software a run was made.

Each row with a time is predicted with a stack that no row of its own source was fitted to, as if nobody had measured
its software: with the one that :func:`dse.plan.stack_range.usual_stack` takes, and beside it with

* the middle one of those that could be meant, by the steps of the row's own plan, which answers state with the range;
* the middle one by speed: a stack's mean logarithm of steps over those of all, on the plans of other sources on its
  platform (of two in the middle the newer one);
* ``generic``, whose rates are fitted to no run;
* the row's own stack, fitted to its source: what it is worth to name it.

``in_range`` are the rows whose measured step is within the range that answers show, ``covered`` those within the 90 %
interval of a stack that nobody named, with the row's source left out of it.

``--rows FILE`` adds the rows of another table of this form with names of their own.
"""

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from benchmarks.intervals import sources
from benchmarks.recording import Record, Results, parser_of
from benchmarks.training_predictions import predicted
from benchmarks.training_rows import Run, fitting_runs, rows_of, runs
from dse.plan.intervals import Quality, distance, interval_at, intervals
from dse.plan.rules import faults
from dse.plan.stack import list_stacks, stack
from dse.plan.stack_range import GENERIC, on_problem, stacks_meant, stacks_of_others, usual_stack
from hardware.chips import Chip

RULES = {
    "newest": "the newest measured on the chip, a framework before a submission (taken)",
    "middle": "the middle one of those that could be meant, for the plan itself (stated)",
    "middle by speed": "the middle one by speed on plans of other sources",
    GENERIC: "`generic`, fitted to no run",
    "own": "its own, named and fitted to its source",
}
RECORD = Record(
    "stack_choices",
    ("rows", "in_range", "covered", "middle.mean", "middle.bias", "newest.mean", "newest.bias"),
    {"main": ("stack", "rows", "mean error %", "median %", "worst %", "bias %")},
)


@dataclass(frozen=True)
class Priced:
    """A row of a source, and predicted over measured step by stack: those of its platform, ``generic``, and its own."""

    run: Run
    source: str
    ratios: dict[str, float]

    @property
    def chip(self) -> Chip:
        """Of the row."""
        return self.run.problem.system.chip


def ratio(run: Run, name: str) -> float | None:
    """Predicted over measured step with a stack; None where that has not what the row fixes, but for recomputation."""
    problem = replace(run.problem, stack=on_problem(run.problem, name))
    if faults(problem):
        problem = replace(problem, fixed=tuple(each for each in problem.fixed if each[0] != "recompute"))
    if faults(problem):
        return None
    return predicted(replace(run, problem=problem))[0].step_s / (run.step_s or math.nan)


def priced(run: Run, source: str) -> Priced:
    """A row with every stack that runs on its chip."""
    chip = run.problem.system.chip
    names = {GENERIC, run.software, *(name for name in stacks_of_others() if stack(name).runs_on(chip))}
    return Priced(run, source, {name: each for name in sorted(names) if (each := ratio(run, name)) is not None})


def middle_by_speed(row: Priced, meant: Sequence[str], rows: Sequence[Priced]) -> str:
    """Of the stacks that could be meant, by their mean steps on rows of other sources that price all of them."""
    others = [
        each
        for each in rows
        if each.source != row.source and each.chip.platform == row.chip.platform and {*meant} <= each.ratios.keys()
    ]
    ranked = sorted(meant, key=lambda name: (sum(math.log(each.ratios[name]) for each in others), name))
    middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
    return max(middle, key=lambda name: date.value if (date := stack(name).date) else "")


def errors_by_rule(row: Priced, known: Collection[str], rows: Sequence[Priced]) -> dict[str, float]:
    """Predicted over measured step by rule, of the stacks that are ``known``; empty where none could be meant."""
    meant = [name for name in stacks_meant(row.chip) if name in known and name in row.ratios]
    if not meant or GENERIC not in row.ratios:
        return {}
    return {
        "newest": row.ratios[usual_stack(row.chip, [name for name in known if name in row.ratios])],
        "middle": statistics.median(row.ratios[name] for name in meant),
        "middle by speed": row.ratios[middle_by_speed(row, meant, rows)],
        GENERIC: row.ratios[GENERIC],
        "own": row.ratios[row.run.software],
        "fastest": min(row.ratios[name] for name in meant),
        "slowest": max(row.ratios[name] for name in meant),
    }


def figures(ratios: Sequence[float]) -> tuple[float, ...]:
    """Mean, median and worst size of errors, and their mean; in percent."""
    errors = [100 * (each - 1) for each in ratios]
    sizes = [abs(each) for each in errors]
    found = statistics.fmean(sizes), statistics.median(sizes), max(sizes), statistics.fmean(errors)
    return tuple(round(each, 1) for each in found)


def is_covered(row: Priced, taken: float) -> bool | None:
    """Whether a measured step is in the interval of a stack that nobody named; None where there is none."""
    whole = intervals()
    data = whole.model_copy(update={"rows": tuple(each for each in whole.rows if each.source != row.source)})
    away = distance(replace(row.run.problem, stack_is_named=False), data.stacks)
    factor = interval_at(data, away, cast(Quality, row.run.quality)).factor
    return None if factor is None else abs(math.log(taken)) <= math.log(factor)


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="another table of measured runs")
    arguments = parser.parse_args()
    results, of, every = Results(RECORD), sources(), {run.name: run for run in runs()}
    fitted = {name: {of[run.name] for run in fit} for name, fit in fitting_runs(runs()).items()}
    if arguments.rows is not None:
        of = sources(arguments.rows) | of
        every = {run.name: run for run in rows_of(arguments.rows) if isinstance(run, Run)} | every
    rows = [priced(run, of[run.name]) for run in every.values() if run.step_s is not None]
    left_out = [
        (row, errors)
        for row in rows
        if (errors := errors_by_rule(row, [n for n in list_stacks() if row.source not in fitted.get(n, ())], rows))
    ]
    for rule, words in RULES.items():
        found = figures([errors[rule] for _, errors in left_out])
        results.row("main", words, len(left_out), *found)
        if rule in ("newest", "middle"):
            results.figure(f"{rule}.mean", f"{found[0]:.1f} %")
            results.figure(f"{rule}.bias", f"{found[3]:+.1f} %".replace("-", "−"))
    results.figure("rows", len(left_out))
    within = sum(errors["fastest"] <= 1 <= errors["slowest"] for _, errors in left_out)
    results.figure("in_range", f"{within} of {len(left_out)}")
    covered = [each for row, errors in left_out if (each := is_covered(row, errors["newest"])) is not None]
    results.figure("covered", f"{sum(covered)} of {len(covered)}")
    results.save(arguments.record)
