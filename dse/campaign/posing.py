"""From the file to the posed campaign: every value of every axis is judged before any cell is answered.

A value that no cell can have is a slip of the pen, and refused. So cells are posed, without being answered, until each
value is in one that could be posed; a value for which the first few cells and the last few all fail is refused with the
reason of the first. A combination that fails on its own is a row of the table.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dse.campaign.axes import axis_of
from dse.campaign.cells import (
    baselines_of,
    cells_of,
    chosen_axes,
    count_of,
    fixed_settings,
    front_columns,
    refuse_contradictions,
    weights_of,
)
from dse.campaign.document import CampaignDocument
from dse.campaign.options import CampaignOptions
from dse.campaign.posed import CampaignPosed, KeptByName
from dse.campaign.problem import PROBLEM, Axis, AxisValue, Campaign, Cell
from dse.campaign.questions import question
from dse.problem import pose
from dse.results.result import Objective
from hardware.documents import read_document
from hardware.input_files import InputFile, note_files
from hardware.inputs import Fault, InputError, fail, validate

USUAL_CELLS, USUAL_HOURS = 10_000, 100.0
"""What a campaign may have without ``--yes``."""

MAX_CELLS = 5_000_000
"""What the driver can hold."""

MIN_CELL_S = 0.2
"""What a cell takes, where its problem predicts less."""

TRIES = 4
"""Cells that are posed for a value before it is refused: so many of its first ones, and as many of its last ones."""


def posed_campaign(options: CampaignOptions) -> CampaignPosed:
    """The campaign of the file.

    Raises:
        InputError: whatever is wrong with it, or it is larger than what may be answered without ``--yes``.
    """
    file = options.file
    document = validate(CampaignDocument, read_document(file), file)
    axes = tuple(axis_of(file, name, stated) for name, stated in document.axes.items())
    fixed = fixed_settings(file, document)
    refuse_contradictions(file, fixed, axes)
    chosen = chosen_axes(file, document, axes)
    baselines = baselines_of(file, document, axes, chosen)
    count = count_of(axes, baselines, chosen)
    if count > MAX_CELLS:
        raise fail(file, "axes", f"{count:,} cells", f"must be at most {MAX_CELLS:,}: give fewer values")
    campaign = Campaign(
        file=file,
        name=document.name,
        fixed=fixed,
        axes=axes,
        cells=cells_of(file, document, axes, baselines, chosen),
        chosen=chosen,
        baselines=baselines,
        weights=weights_of(file, document, axes),
        pareto=front_columns(file, document),
        cell_time_limit_s=document.cell_time_limit_s,
        check_share=document.check_share,
    )
    predicted_s, inputs = _judged(campaign)
    campaign = replace(campaign, predicted_s=predicted_s * len(campaign.cells))
    if not options.yes:
        _refuse_large(campaign)
    note_files(inputs)
    content = _content(campaign) | {"inputs": sorted({each.sha256 for each in inputs.values()})}
    goal = Objective(name="settled", value=None, unit="cells", sense="max")
    # Whoever holds a posed campaign has agreed to its size: a check need not ask again.
    return KeptByName(replace(options, yes=True), campaign, campaign.name, content, goal)


def _content(campaign: Campaign) -> dict[str, Any]:
    """What the table depends on, in JSON types."""

    def values(each: Sequence[AxisValue]) -> list[Any]:
        return [[value.label, dict(value.settings)] for value in each]

    return {
        "name": campaign.name,
        "fixed": dict(campaign.fixed),
        "axes": [[axis.name, values(axis.values)] for axis in campaign.axes],
        "cells": [[*cell.places, cell.baseline] for cell in campaign.cells],
        "chosen": [*campaign.chosen],
        "baselines": [[each.name, values(each.values)] for each in campaign.baselines],
        "weights": {campaign.axes[number].name: dict(each) for number, each in campaign.weights.items()},
        "pareto": [*map(list, campaign.pareto)],
        "cell_time_limit_s": campaign.cell_time_limit_s,
        "check_share": campaign.check_share,
    }


def _refuse_large(campaign: Campaign) -> None:
    cells, hours = len(campaign.cells), campaign.predicted_s / 3600
    if cells > USUAL_CELLS or hours > USUAL_HOURS:
        size = f"{cells:,} cells, about {hours:,.1f} hours on one core"
        rule = f"more than {USUAL_CELLS:,} cells or {USUAL_HOURS:g} hours need --yes"
        raise fail(campaign.file, "axes", size, rule)


def _judged(campaign: Campaign) -> tuple[float, dict[str, InputFile]]:
    """(seconds a cell, what its values read), by cells that have all values among them.

    Raises:
        InputError: a value that no cell could be posed with.
    """
    seconds: dict[Cell, float] = {}
    inputs: dict[str, InputFile] = {}
    for key, value, cells in _tried_cells(campaign):
        reads = not seconds or any(isinstance(each, str | list) for each in value.settings.values())
        if any(cell in seconds for cell in cells):
            continue
        first_error: InputError | None = None
        for cell in cells:
            try:
                kind, options = question(campaign.settings(cell))
                if reads:
                    posed = pose(kind, options)
                    seconds[cell] = max(MIN_CELL_S, kind.predicted_s(posed))
                    inputs |= posed.inputs
                break
            except InputError as error:
                first_error = first_error or error
        else:
            if first_error is not None:
                raise _of_the_file(campaign, key, first_error) from first_error
    return sum(seconds.values()) / max(1, len(seconds)), inputs


def _tried_cells(campaign: Campaign) -> Iterator[tuple[str, AxisValue, list[Cell]]]:
    """(where the file has it, a value, the first cells with it and the last) of all values that are in a cell."""
    first: defaultdict[tuple[int, int, int], list[Cell]] = defaultdict(list)
    last: defaultdict[tuple[int, int, int], deque[Cell]] = defaultdict(lambda: deque(maxlen=TRIES))
    for cell in campaign.cells:
        for number, place in enumerate(cell.places):
            value = number, place, cell.baseline if place < 0 else -1
            if len(first[value]) < TRIES:
                first[value].append(cell)
            else:
                last[value].append(cell)
    for (number, place, baseline), cells in ((value, [*cells, *last[value]]) for value, cells in first.items()):
        axis = campaign.axes[number]
        if place < 0:
            name = campaign.baselines[baseline].name
            yield f"baselines.{name}.{axis.name}", campaign.values(cells[0])[number], cells
        else:
            yield axis.key(place), axis.values[place], cells


def _of_the_file(campaign: Campaign, key: str, error: InputError) -> InputError:
    """The fault of a cell as one of the file: at the place that sets the option, where it names one."""
    fault = error.faults[0]
    settings = campaign.settings(campaign.cells[0])
    name = fault.key.removeprefix("--").replace("-", "_")
    if name in campaign.fixed:
        key = name if name == PROBLEM else f"fixed.{name}"
    elif name in settings or any(axis.name == name for axis in campaign.axes):
        key = key if key.startswith((f"axes.{name}", "baselines.")) else next(_owners(campaign.axes, name), key)
    return InputError([Fault(campaign.file, key, "", str(replace(fault, suggestion=None)), fault.suggestion)])


def _owners(axes: Sequence[Axis], option: str) -> Iterator[str]:
    return (f"axes.{axis.name}" for axis in axes if any(option in value.settings for value in axis.values))
