"""A campaign as it was read: axes with their values, and the cells, which are combinations of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Settings = Mapping[str, Any]
"""Options by name, as the file gives them; ``problem`` is the name of the problem."""

PROBLEM = "problem"
"""The setting that names a cell's problem."""


@dataclass(frozen=True)
class AxisValue:
    """A value of an axis: its label in tables, and the options that it sets."""

    label: str
    settings: Settings


@dataclass(frozen=True)
class Axis:
    """An axis: its name, its values, and where the file has it (for errors)."""

    name: str
    values: tuple[AxisValue, ...]

    def key(self, place: int) -> str:
        """Where the file has the value at ``place``."""
        return f"axes.{self.name}: {self.values[place].label}"


@dataclass(frozen=True)
class Baseline:
    """A choice that others are compared with: a value for each chosen axis."""

    name: str
    values: tuple[AxisValue, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A combination of values.

    Attributes:
        places: of its value on each axis; -1 on the chosen axes of a baseline's cells.
        baseline: the number of the baseline whose values it has there; -1 for none.
    """

    places: tuple[int, ...]
    baseline: int = -1


@dataclass(frozen=True)
class Campaign:
    """All cells, and what is asked of them.

    Attributes:
        file: where it was read, for errors.
        name: of the campaign.
        fixed: settings of all cells.
        axes: in the order of the file.
        cells: those that no filter leaves out, the last axis running fastest; then those of baselines.
        chosen: the numbers of the axes that are chosen.
        baselines: further choices.
        weights: by number of an axis and label.
        pareto: (column, sense) of the front.
        cell_time_limit_s: of each cell, if there is one.
        check_share: of the cells that a check answers again.
        predicted_s: how long the cells take on one core, by the predictions of their problems; 0 where unknown.
    """

    file: str
    name: str
    fixed: Settings
    axes: tuple[Axis, ...]
    cells: Sequence[Cell] = field(repr=False)
    chosen: tuple[int, ...]
    baselines: tuple[Baseline, ...] = ()
    weights: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    pareto: tuple[tuple[str, Literal["min", "max"]], ...] = ()
    cell_time_limit_s: float | None = None
    check_share: float = 0.05
    predicted_s: float = 0.0

    @cached_property
    def conditions(self) -> tuple[int, ...]:
        """The numbers of the axes that are not chosen."""
        return tuple(number for number in range(len(self.axes)) if number not in self.chosen)

    def values(self, cell: Cell) -> tuple[AxisValue, ...]:
        """The value of ``cell`` on each axis."""
        return tuple(
            self.baselines[cell.baseline].values[self.chosen.index(number)] if place < 0 else axis.values[place]
            for number, (axis, place) in enumerate(zip(self.axes, cell.places, strict=True))
        )

    def settings(self, cell: Cell) -> dict[str, Any]:
        """The problem and the options of ``cell``."""
        settings = dict(self.fixed)
        for value in self.values(cell):
            settings.update(value.settings)
        return settings

    def label(self, cell: Cell) -> str:
        """``cell`` for people."""
        pairs = zip(self.axes, self.values(cell), strict=True)
        return ", ".join(f"{axis.name}={value.label}" for axis, value in pairs)
