"""The check of a campaign: cells answered again, each alone, and everything else recomputed from the cells.

A cell is answered again in this process, without the journal and without the cells before it, its result passes the
check of its own problem, and the row is compared with that of the table. Where cells are many, a random share of them
is; the sample follows from the campaign's digest and the seed. A cell that its time limit stopped may have another
answer each time: where all cells are answered again, it is too, within the same limit, and its value and bound must not
contradict the other bound and value.
"""

import math
import random
from collections.abc import Sequence
from typing import Any

from dse.campaign.choices import Grid
from dse.campaign.posed import CampaignPosed
from dse.campaign.problem import Settings
from dse.campaign.questions import question
from dse.campaign.rows import PLAIN, REPEATABLE, SETTLED, Row, counts_of, refused, row_of, rows_of
from dse.campaign.solve import AnswerCell
from dse.results.check import faults_of
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result, proven_status, relative_gap
from dse.run.remembered import Remembered, Same
from hardware.input_files import InputFile, runs_code
from hardware.inputs import InputError

MIN_CELLS = 24
"""Cells that a check answers again at least."""

_AGAIN: Remembered[tuple[Row, tuple[str, ...]] | None] = Remembered(1024)
"""Cells that were answered again, of the campaigns that were checked last."""


def violations(result: Result, posed: CampaignPosed, all_cells: bool = False) -> list[str]:
    """Everything that is wrong with the table.

    Args:
        result: of a campaign.
        posed: its problem.
        all_cells: whether all cells are answered again.
    """
    campaign, cells = posed.problem, result.solution["cells"]
    faults = differences("solution.cells", {key: cells.get(key) for key in ("axes", "baseline")}, labels_of(posed))
    uneven = [
        f"{where} must have {len(campaign.cells)} entries"
        for where, column in (
            *((f"solution.cells.{name}", cells[name]) for name in PLAIN),
            *((f"solution.figures.{name}", column) for name, column in result.solution["figures"].items()),
            ("metrics.seconds", result.metrics["seconds"]),
        )
        if len(column) != len(campaign.cells)
    ]
    if faults or uneven:
        return faults + uneven
    rows = rows_of(cells, result.solution["figures"])
    sampled = repeatable(rows) if all_cells else sample(rows, posed, result.seed)
    return [
        *_claims(result, rows),
        *differences("metrics", _without_times(result.metrics), expected_metrics(posed, rows, result)),
        *(fault for number in sampled for fault in _again_faults(number, rows[number], posed, result.seed)),
        *(
            fault
            for number, row in enumerate(rows)
            if all_cells and row.status == "stopped" and (row.value is not None or row.bound is not None)
            for fault in _stopped_faults(number, row, posed, result.seed)
        ),
    ]


def labels_of(posed: CampaignPosed) -> dict[str, Any]:
    """The columns that the campaign itself says."""
    campaign = posed.problem
    values = [campaign.values(cell) for cell in campaign.cells]
    return {
        "axes": {axis.name: [each[number].label for each in values] for number, axis in enumerate(campaign.axes)},
        "baseline": [campaign.baselines[cell.baseline].name if cell.baseline >= 0 else "" for cell in campaign.cells],
    }


def expected_metrics(posed: CampaignPosed, rows: Sequence[Row], result: Result) -> dict[str, Any]:
    """What follows from the rows."""
    expected = {"counts": counts_of(rows), **Grid(posed.problem, rows).metrics()}
    stopped = result.metrics.get("stopped")
    return expected if stopped is None else expected | {"stopped": str(stopped)}


def _without_times(metrics: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metrics.items() if key != "seconds"}


def repeatable(rows: Sequence[Row]) -> list[int]:
    """The numbers of the cells whose answers do not depend on time."""
    return [number for number, row in enumerate(rows) if row.status in REPEATABLE]


def sample(rows: Sequence[Row], posed: CampaignPosed, seed: int) -> list[int]:
    """The numbers of the cells that are answered again."""
    numbers = repeatable(rows)
    count = min(len(numbers), max(MIN_CELLS, math.ceil(posed.problem.check_share * len(numbers))))
    return sorted(random.Random(f"{posed.digest} {seed}").sample(numbers, count))


def _claims(result: Result, rows: Sequence[Row]) -> list[str]:
    """What statuses, values and counts say of each other."""
    settled = sum(row.status in SETTLED for row in rows)
    faults = differences("objective.value", result.objective.value, float(settled))
    faults += differences("bound", result.bound, float(len(rows)))
    is_open = any(row.status == "open" for row in rows)
    if is_open != (result.metrics.get("stopped") is not None):
        faults.append("metrics.stopped must be given if and only if a cell is open")
    for number, row in enumerate(rows):
        if row.gap != relative_gap(row.value, row.bound):
            faults.append(f"solution.cells.gap[{number}] must be that of value and bound")
        if row.status == "optimal" and proven_status(row.value, row.bound) != "optimal":
            faults.append(f"solution.cells.status[{number}] must not be optimal with a gap")
        if row.status == "open" and row != Row("open"):
            faults.append(f"solution.cells.status[{number}] must not be open with an answer")
    for number, seconds in enumerate(result.metrics["seconds"]):
        if not math.isfinite(seconds):
            faults.append(f"metrics.seconds[{number}] must be finite")
    return faults


def _again_faults(number: int, row: Row, posed: CampaignPosed, seed: int) -> list[str]:
    """In what a cell differs from its answer now."""
    campaign = posed.problem
    answered = _AGAIN.get((Same(campaign), number, seed, runs_code()), lambda: _again(number, posed, seed))
    if answered is None:
        return []
    again, faults = answered
    where = f"cell {number} ({campaign.label(campaign.cells[number])})"
    stated, expected = (
        {**row.document(), "figures": dict(row.figures)},
        {**again.document(), "figures": dict(again.figures)},
    )
    for each in (stated, expected):
        each.pop("seconds", None)
    return [*differences(where, stated, expected), *(f"{where}: {fault}" for fault in faults)]


def _stopped_faults(number: int, row: Row, posed: CampaignPosed, seed: int) -> list[str]:
    """In what a cell that was stopped contradicts its answer within the same limit."""
    campaign = posed.problem
    answered = _again(number, posed, seed, campaign.cell_time_limit_s)
    if answered is None:
        return []
    again, faults = answered
    where = f"cell {number} ({campaign.label(campaign.cells[number])})"
    names = ("problem", "objective", "unit", "sense")
    stated, expected = ({name: getattr(each, name) for name in names} for each in (row, again))
    found = [*differences(where, stated, expected), *(f"{where}: {fault}" for fault in faults)]
    sign = 1.0 if again.sense == "min" else -1.0
    for value, bound, key in ((row.value, again.bound, "value"), (again.value, row.bound, "bound")):
        if value is not None and bound is not None and sign * (value - bound) < -PROOF_TOLERANCE * abs(bound):
            found.append(f"{where}.{key}: the value {value:g} is better than the bound {bound:g}")
    return found


def is_of_code(settings: Settings) -> bool:
    """Whether a cell names a Python file of the user."""
    return any(isinstance(value, str) and ".py" in value for value in settings.values())


def _again(
    number: int, posed: CampaignPosed, seed: int, time_limit_s: float | None = None
) -> tuple[Row, tuple[str, ...]] | None:
    """(the row of a cell that is answered alone, what its own check finds); None where only its code could tell."""
    files: dict[str, InputFile] = dict(posed.inputs)
    settings = posed.problem.settings(posed.problem.cells[number])
    try:
        own, result, _ = AnswerCell(files, seed, time_limit_s).answered(settings)
    except InputError as error:
        # The result carries the graphs of the cells that posed it, not those of all.
        return None if is_of_code(settings) and not runs_code() else (refused(str(error)), ())
    except Exception as error:  # a fault of the problem that is a row of the table, too
        return refused(f"{type(error).__name__}: {error}"), ()
    return row_of(question(settings)[0], result, 0.0, None), tuple(faults_of(result, own))
