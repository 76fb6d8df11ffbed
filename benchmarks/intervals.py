"""Intervals of predicted steps: ``dse/plan/intervals.yaml``, fitted to the errors of all rows that nothing else was.

Targets: coverage ≥ 85 % with whole sources left out; median half-width ≤ 20 % where plan and measurement are fully
stated. The first row is that of sources left out: scale and quantile come from all other sources. The row below, in
which every row helps to judge itself, is the baseline.

Each row counts with its own stack, where that is fitted to other rows, and once more with the stack ``generic``, which
is fitted to none: what a stack that nobody has calibrated is off by. ``--rows FILE`` adds the rows of another table of
that form with names of their own: nobody looked at them while a term was chosen, and without them intervals are too
narrow. ``--record`` writes both files.
"""

import csv
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import cast

from benchmarks.recording import Record, Results, parser_of
from benchmarks.training_predictions import predicted, table
from benchmarks.training_rows import RUNS, Run, fitting_runs, rows_of, runs
from dse.plan import intervals
from dse.plan.intervals import ErrorRow, FittedStack, Intervals, PairErrors, Quality, Way, distance, interval_at
from dse.plan.stack import stack
from hardware.documents import yaml_of
from hardware.inputs import InputError

PATH = RUNS.parents[3] / "dse" / "plan" / intervals.FILE
GENERIC = "generic"
COLUMNS = ("rows", "with an interval", "covered", "coverage", "median half-width of quality A")
RECORD = Record(
    "intervals",
    (
        "left_out.coverage",
        "left_out.rows",
        "half_width_a",
        "pair_rms",
        "pair_rms_uncalibrated",
        "coin_toss",
        "generic",
        "near",
    ),
    {
        "coverage": ("judged by", *COLUMNS),
        "sources": ("source left out", *COLUMNS),
        "classes": ("away in so many ways", "runs", "half-width of quality A"),
    },
)
_ROUNDS = 50
"""Of the fit of medians; it stands still long before."""


def sources(path: Path = RUNS) -> dict[str, str]:
    """By row of a table, the paper or repository that it was published in."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        found = {row["id"]: re.search(r"arXiv \d+\.\d+|[\w.-]+/[\w.-]+", row["source"]) for row in csv.DictReader(file)}
    return {name: "other" if match is None else match[0] for name, match in found.items()}


def fitted_stacks() -> dict[str, FittedStack]:
    """What the rows that each stack is fitted to cover."""
    return {
        name: FittedStack(
            chips=tuple(sorted({run.problem.system.chip.name for run in rows})),
            experts=any(run.problem.model.experts is not None for run in rows),
            sequence=max(run.problem.sequence for run in rows),
        )
        for name, rows in sorted(fitting_runs(runs()).items())
    }


Judged = tuple[ErrorRow, tuple[str, str]]
"""A row with its error, and its chip and stack."""


def error_rows(stacks: dict[str, FittedStack], more: Path | None = None) -> list[Judged]:
    """The errors of all rows with a time that nothing was fitted to, and of all with the stack ``generic``.

    ``more``: a table with further rows.
    """
    every = {run.name: run for run in runs()}
    fitted = {run.name for rows in fitting_runs(list(every.values())).values() for run in rows}
    of, rows = sources(), list[Judged]()
    if more is not None:
        of = sources(more) | of
        every = {run.name: run for run in rows_of(more) if isinstance(run, Run)} | every
    for run in every.values():
        if run.step_s is None:
            continue
        own = [] if run.name in fitted else [run]
        for each in (*own, *_with_generic(run)):
            try:
                step_s = predicted(each)[0].step_s
            except InputError:  # the row has what the generic stack cannot
                continue
            row = ErrorRow(
                name=each.name,
                source=of[run.name],
                quality=cast(Quality, run.quality),
                away={way: round(far, 3) for way, far in distance(each.problem, stacks).items()},
                log_error=round(math.log(run.step_s / step_s), 4),
            )
            rows.append((row, (each.chip, each.software)))
    return rows


def _with_generic(run: Run) -> list[Run]:
    problem = run.problem
    if run.software == GENERIC:
        return []
    width, precision = problem.model.key_width, problem.precision
    own = stack(GENERIC).on_chip(problem.system.chip, width, problem.sequence, precision)
    return [replace(run, name=f"{run.name}, {GENERIC}", problem=replace(problem, stack=own))]


def fit(
    rows: Sequence[ErrorRow], stacks: dict[str, FittedStack], pairs: Sequence[PairErrors], memory: Sequence[float]
) -> Intervals:
    """The scale as medians of the sizes of errors: of each quality on calibrated machines, then of what a way adds."""
    base: dict[Quality, float] = {"A": 0.0, "B": 0.0, "C": 0.0}
    for quality in base:
        near = [abs(row.log_error) for row in rows if row.quality == quality and not row.away]
        base[quality] = statistics.median(near) if near else max(base.values())
    ways: dict[Way, float] = dict.fromkeys(intervals.WAYS, 0.0)
    for _ in range(_ROUNDS):
        for way in ways:
            rest = [
                (abs(row.log_error) - base[row.quality] - sum(ways[o] * x for o, x in row.away.items() if o != way))
                / row.away[way]
                for row in rows
                if way in row.away
            ]
            ways[way] = max(0.0, statistics.median(rest)) if rest else 0.0
    return Intervals(
        base={key: round(value, 4) for key, value in base.items()},
        ways={key: round(value, 4) for key, value in ways.items()},
        pairs=tuple(pairs),
        memory=tuple(round(size, 4) for size in sorted(memory)),
        stacks=stacks,
        rows=tuple(rows),
    )


def pair_errors(rows: Sequence[Judged]) -> list[PairErrors]:
    """What tells two plans on one machine apart, by the number of ways that they are away in.

    Machines are a chip, a stack and these ways; each counts alike, however many rows it has.
    """
    machines: dict[tuple[int, object, tuple[Way, ...]], list[float]] = {}
    for row, machine in rows:
        machines.setdefault((len(row.away), machine, tuple(row.away)), []).append(row.log_error)
    shared = [(ways, errors) for (ways, *_), errors in machines.items() if len(errors) > 1]
    found = []
    for ways in sorted({ways for ways, _ in shared}):
        each = [errors for others, errors in shared if others == ways]
        squares = [statistics.fmean((one - other) ** 2 for one, other in combinations(errors, 2)) for errors in each]
        rms = round(math.sqrt(statistics.fmean(squares)), 4)
        found.append(PairErrors(away=ways, rows=sum(map(len, each)), rms=rms))
    return found


def memory_sizes() -> list[float]:
    """Sizes of the log errors of memory that nothing was fitted to."""
    return [
        abs(math.log1p(row.memory_error))
        for row in table()
        if row.run.memory_gib is not None and not row.memory_is_fitted
    ]


def judged(pairs: Sequence[tuple[ErrorRow, Intervals]]) -> tuple[int, int, int, str, str]:
    """Cells under :data:`COLUMNS` of rows with what their intervals come from."""
    factors = [(row, interval_at(data, dict(row.away), row.quality).factor) for row, data in pairs]
    known = [(row, factor) for row, factor in factors if factor is not None]
    covered = sum(abs(row.log_error) <= math.log(factor) for row, factor in known)
    best = [factor - 1 for row, factor in known if row.quality == "A" and "stack" not in row.away]
    width = f"±{100 * statistics.median(best):.0f} %" if best else "–"
    share = f"{100 * covered / len(known):.0f} %" if known else "–"
    return len(pairs), len(known), covered, share, width


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="another table of measured runs")
    arguments = parser.parse_args()
    results, stacks = Results(RECORD), fitted_stacks()
    every, memory = error_rows(stacks, arguments.rows), memory_sizes()
    rows, pairs = [row for row, _ in every], pair_errors(every)
    whole = fit(rows, stacks, pairs, memory)
    without = {
        source: fit([row for row in rows if row.source != source], stacks, pairs, memory)
        for source in sorted({row.source for row in rows})
    }
    own, uncalibrated = ([row for row in rows if ("stack" in row.away) is is_away] for is_away in (False, True))
    left_out = judged([(row, without[row.source]) for row in own])
    results.row("coverage", "whole sources left out", *left_out)
    results.row("coverage", "no row left out", *judged([(row, whole) for row in own]))
    generic = judged([(row, without[row.source]) for row in uncalibrated])
    results.row("coverage", "whole sources left out, stack fitted to no run", *generic)
    for source, data in without.items():
        results.row("sources", source, *judged([(row, data) for row in own if row.source == source]))
    for count in range(len(intervals.WAYS) + 1):
        near = [row for row in rows if len(row.away) == count]
        widths = [interval_at(whole, dict(row.away), "A").factor for row in near]
        known = [100 * (factor - 1) for factor in widths if factor is not None]
        if near:
            shown = f"±{min(known):.0f} to {max(known):.0f} %" if known else "none"
            results.row("classes", count, len(near), shown)
    results.figure("left_out.coverage", left_out[3])
    results.figure("left_out.rows", left_out[1])
    results.figure("half_width_a", left_out[4])
    rms = {each.away: each.rms for each in pairs if each.rows >= intervals.MIN_ROWS}
    results.figure("pair_rms", f"{rms[0]:.2f}")
    results.figure("pair_rms_uncalibrated", f"{rms[1]:.2f}")
    results.figure("coin_toss", f"{100 * intervals.chance(math.log(1.05), rms[0]):.0f} %")
    of_generic = interval_at(whole, {"stack": 1.0}, "A")
    results.figure("generic", "none" if of_generic.factor is None else f"±{100 * (of_generic.factor - 1):.0f} %")
    results.figure("near", intervals.MIN_ROWS)
    if arguments.record:
        command = "python -m benchmarks.intervals --rows FILE --record"
        head = f"# Errors of published runs that nothing was fitted to ({command}).\n"
        text = yaml_of(whole.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=1000)
        PATH.write_text(head + text, encoding="utf-8")
    results.save(arguments.record)
