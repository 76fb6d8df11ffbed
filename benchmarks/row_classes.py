"""Errors of any table of measured runs, by class: what ``python -m benchmarks.truth --rows FILE`` prints.

Classes are the qualities of the rows (A, B, C), ``dense`` and ``experts`` by their models, and ``all``. Rows that a
constant of a stack was fitted to belong to none. Errors are predicted over measured step, less 1, in per cent; mean,
median and worst are of their sizes, ``bias`` is their mean with its sign. A row that cannot be posed or has no time
counts in no class and is listed with its reason; one that is predicted not to fit is priced and named. ``order`` has
the pairs of runs on one chip, and on one chip with one stack, whose efficiency differs by more than 5 %.
"""

import math
import statistics
from collections.abc import Hashable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.training_predictions import ideal_s, predicted
from benchmarks.training_rows import Run, Unposed, fitting_runs, rows_of, runs
from dse.plan.rules import faults
from hardware.inputs import InputError

Line = tuple[Run, float, bool, bool]
"""A run, its error, whether it is predicted to fit, and whether a constant was fitted to it."""


def measured_against(path: Path) -> tuple[list[Line], list[Unposed]]:
    """Every row with a time and its error, and the others with their reasons.

    Raises:
        ValueError, OSError: as :func:`benchmarks.training_rows.rows_of`.
    """
    fitted = {run.name for rows in fitting_runs(runs()).values() for run in rows}
    lines: list[Line] = []
    others: list[Unposed] = []
    for row in rows_of(path):
        if isinstance(row, Unposed):
            others.append(row)
        elif broken := faults(row.problem):
            others.append(Unposed(row.name, "; ".join(map(str, broken))))
        elif row.step_s is None:
            others.append(Unposed(row.name, "no step time, rate or MFU is stated"))
        else:
            try:
                best, fits = predicted(row)
            except InputError as error:
                others.append(Unposed(row.name, str(error)))
            else:
                lines.append((row, best.step_s / row.step_s - 1, fits, row.name in fitted))
    return lines, others


def ordered(rows: Sequence[tuple[Hashable, Run, float]]) -> tuple[int, int]:
    """(pairs in the right order, all pairs) of runs on one machine whose efficiency differs by more than 5 %.

    Rows are a machine, a run and its error.
    """
    right = total = 0
    for (machine, one, its), (another, other, others) in combinations(rows, 2):
        measured = math.log(ideal_s(one) / ideal_s(other) * (other.step_s or math.nan) / (one.step_s or math.nan))
        if machine == another and abs(measured) > math.log(1.05):
            total += 1
            right += (measured + math.log((1 + others) / (1 + its)) > 0) == (measured > 0)
    return right, total


def document(lines: Sequence[Line], others: Sequence[Unposed]) -> dict[str, Any]:
    """What ``--json`` prints."""
    free = [line for line in lines if not line[3]]
    members = {quality: [line for line in free if line[0].quality == quality] for quality in "ABC"}
    members["dense"] = [line for line in free if line[0].problem.model.experts is None]
    members["experts"] = [line for line in free if line[0].problem.model.experts is not None]
    members["all"] = free
    return {
        "classes": {name: _class([error for _, error, *_ in each]) for name, each in members.items()},
        "order": {
            "chip": _order([(run.chip, run, error) for run, error, *_ in free]),
            "chip and stack": _order([((run.chip, run.software), run, error) for run, error, *_ in free]),
        },
        "does_not_fit": [run.name for run, _, fits, _ in lines if not fits],
        "fitted_to": [run.name for run, *_, is_fitted in lines if is_fitted],
        "unpriced": {row.name: row.reason for row in others},
        "rows": {
            run.name: {"stack": run.software, "measured_s": run.step_s, "error": round(100 * error, 2)}
            for run, error, *_ in lines
        },
    }


def text(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{'class':8} {'n':>4} {'mean':>7} {'median':>7} {'worst':>7} {'bias':>7}  (per cent)"]
    for name, each in found["classes"].items():
        values = (each[key] for key in ("mean", "median", "worst", "bias"))
        cells = " ".join(f"{'–' if value is None else f'{value:.1f}':>7}" for value in values)
        lines.append(f"{name:8} {each['n']:4} {cells}")
    lines += [f"order on one {name}: {each['right']} of {each['pairs']}" for name, each in found["order"].items()]
    lines += [f"{name}: {each['error']:+.1f} % ({each['stack']})" for name, each in found["rows"].items()]
    lines += [f"{name}: predicted not to fit" for name in found["does_not_fit"]]
    lines += [f"{name}: not priced: {reason}" for name, reason in found["unpriced"].items()]
    return "\n".join(lines)


def _order(rows: Sequence[tuple[Hashable, Run, float]]) -> dict[str, int]:
    right, pairs = ordered(rows)
    return {"right": right, "pairs": pairs}


def _class(errors: Sequence[float]) -> dict[str, Any]:
    sizes = [100 * abs(error) for error in errors]
    if not sizes:
        return {"n": 0, "mean": None, "median": None, "worst": None, "bias": None}
    return {
        "n": len(sizes),
        "mean": round(statistics.fmean(sizes), 2),
        "median": round(statistics.median(sizes), 2),
        "worst": round(max(sizes), 2),
        "bias": round(100 * statistics.fmean(errors), 2),
    }
