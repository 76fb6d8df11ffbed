"""Which combinations of values are cells: filters, baselines, and what contradicts what."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from dse.campaign.axes import label_of, named, option_name, value_of
from dse.campaign.document import CampaignDocument
from dse.campaign.problem import PROBLEM, Axis, Baseline, Cell, Settings
from hardware.inputs import choose, fail

Places = tuple[int, ...]


def fixed_settings(file: str, document: CampaignDocument) -> dict[str, Any]:
    """The settings of all cells."""
    settings = named(document.fixed)
    if document.problem is not None:
        if PROBLEM in settings:
            raise fail(file, "fixed.problem", settings[PROBLEM], "must not be given beside problem")
        settings[PROBLEM] = document.problem
    return settings


def refuse_contradictions(file: str, fixed: Settings, axes: Sequence[Axis]) -> None:
    """InputError where two places of the file set one option of the same cell."""
    owners = dict.fromkeys(fixed, "fixed")
    if PROBLEM in owners:
        owners[PROBLEM] = PROBLEM
    for axis in axes:
        own = {option: value.label for value in axis.values for option in value.settings}
        for option, label in own.items():
            if option in owners:
                rule = f"sets {option}, which {owners[option]} sets too: each option has one place"
                raise fail(file, f"axes.{axis.name}", label, rule)
        owners |= dict.fromkeys(own, f"axes.{axis.name}")


def chosen_axes(file: str, document: CampaignDocument, axes: Sequence[Axis]) -> tuple[int, ...]:
    """The numbers of the axes that are chosen."""
    names = [axis.name for axis in axes]
    asked = document.choose or names[:1]
    for name in asked:
        choose(file, "choose", name, names, "axis")
    return tuple(number for number, name in enumerate(names) if name in asked)


def baselines_of(
    file: str, document: CampaignDocument, axes: Sequence[Axis], chosen: Sequence[int]
) -> tuple[Baseline, ...]:
    """The named baselines.

    Raises:
        InputError: one does not have a value for each chosen axis, or has others.
    """
    wanted = [axes[number].name for number in chosen]
    baselines = []
    for name, stated in document.baselines.items():
        if set(stated) != set(wanted):
            rule = f"must have a value for each axis of choose ({', '.join(wanted)}) and no others"
            raise fail(file, f"baselines.{name}", ", ".join(map(str, stated)), rule)
        values = []
        for number in chosen:
            axis, given = axes[number], stated[axes[number].name]
            known = {value.label: value for value in axis.values}
            own = known.get(label_of(given)) if not isinstance(given, Mapping) else None
            values.append(own or value_of(file, f"baselines.{name}.{axis.name}", axis.name, given))
        baselines.append(Baseline(name, tuple(values)))
    return tuple(baselines)


def front_columns(file: str, document: CampaignDocument) -> tuple[tuple[str, Literal["min", "max"]], ...]:
    """The columns of the front, with their senses.

    Raises:
        InputError: one alone, which has a best cell and no front.
    """
    if len(document.pareto) == 1:
        raise fail(file, "pareto", ", ".join(document.pareto), "must have two or three columns")
    return tuple(document.pareto.items())


def weights_of(file: str, document: CampaignDocument, axes: Sequence[Axis]) -> dict[int, dict[str, float]]:
    """The weights by number of an axis and label.

    Raises:
        InputError: an axis or value that there is not.
    """
    names = [axis.name for axis in axes]
    weights = {}
    for name, by_label in document.weights.items():
        choose(file, "weights", name, names, "axis")
        number = names.index(name)
        for label in by_label:
            choose(file, f"weights.{name}", label, [value.label for value in axes[number].values], "value")
        weights[number] = by_label
    return weights


def count_of(axes: Sequence[Axis], baselines: Sequence[Baseline], chosen: Sequence[int]) -> int:
    """Cells before filters."""
    conditions = math.prod(len(axis.values) for number, axis in enumerate(axes) if number not in chosen)
    return conditions * (math.prod(len(axes[number].values) for number in chosen) + len(baselines))


def cells_of(
    file: str, document: CampaignDocument, axes: Sequence[Axis], baselines: Sequence[Baseline], chosen: Sequence[int]
) -> list[Cell]:
    """The cells, in the order of the file, then those of baselines.

    Raises:
        InputError: a filter of no axis or value, or one that leaves no cell.
    """
    excluded = _filters(file, "exclude", document.exclude, axes)
    only = _filters(file, "only", document.only, axes)

    def is_kept(places: Places) -> bool:
        return not any(each(places) for each in excluded) and (not only or any(each(places) for each in only))

    cells = [Cell(places) for places in product(*(range(len(axis.values)) for axis in axes)) if is_kept(places)]
    if not cells:
        raise fail(file, "only" if only else "exclude", "", "leaves no cell")
    conditions = dict.fromkeys(_without(cell.places, chosen) for cell in cells)
    return cells + [Cell(places, number) for number in range(len(baselines)) for places in conditions]


def _without(places: Places, chosen: Sequence[int]) -> Places:
    return tuple(-1 if number in chosen else place for number, place in enumerate(places))


def _filters(
    file: str, key: str, entries: Sequence[Mapping[str, Any]], axes: Sequence[Axis]
) -> list[Callable[[Places], bool]]:
    return [_filter(dict(_wanted(file, f"{key}[{number}]", entry, axes))) for number, entry in enumerate(entries)]


def _filter(wanted: Mapping[int, frozenset[int]]) -> Callable[[Places], bool]:
    return lambda places: all(places[axis] in values for axis, values in wanted.items())


def _wanted(
    file: str, key: str, entry: Mapping[str, Any], axes: Sequence[Axis]
) -> Iterator[tuple[int, frozenset[int]]]:
    """By number of an axis the places of the values that an entry of a filter has."""
    if not entry:
        raise fail(file, key, "", "must have at least one axis")
    names = [axis.name for axis in axes]
    for name, stated in entry.items():
        own = name if name in names else option_name(name)
        number = names.index(choose(file, key, own, names, "axis"))
        labels = [value.label for value in axes[number].values]
        wanted = [label_of(each) for each in (stated if isinstance(stated, list) else [stated])]
        yield number, frozenset(labels.index(choose(file, f"{key}.{name}", each, labels, "value")) for each in wanted)
