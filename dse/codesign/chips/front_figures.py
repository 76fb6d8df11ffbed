"""What a front of chips may be of: throughput, throughput over what a chip takes, and what it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dse.codesign.chips.problem import ChipProblem
from dse.codesign.chips.silicon import Silicon
from dse.codesign.objective import UNITS, Per
from hardware.inputs import fail, nearest


@dataclass(frozen=True)
class FrontFigure:
    """One objective of a front.

    Attributes:
        name: as it is requested.
        unit: of its values.
        per: where it is throughput over what a chip takes for an objective, of which more is better: that objective;
            else the figure is what a package takes, the less the better.
    """

    name: str
    unit: str
    per: Per | None = None

    def taken(self, problem: ChipProblem, made: Silicon, clock_hz: Any) -> Any:
        """What designs take at a clock, [N]; it falls with no size, rate or clock of a chip."""
        if self.per is not None:
            return problem.divisor(made, clock_hz, self.per)
        match self.name:
            case "power":
                return made.watts(clock_hz)
            case "area":
                return made.package_mm2
            case "cost":
                return made.usd
            case "carbon":
                return made.kg_per_hour(clock_hz)
            case _:
                return made.usd_per_hour(clock_hz, self.name == "hourly-price")

    def value(self, throughput: float, taken: float) -> float:
        """As it is shown."""
        return throughput / taken if self.per is not None else taken


_OF_A_PACKAGE = {
    "power": "W",
    "area": "mm2",
    "cost": "$",
    "hourly-cost": "$/h",
    "hourly-price": "$/h",
    "carbon": "kg/h",
}

_ALL = (
    *(FrontFigure(per, unit, per) for per, unit in UNITS.items()),
    *(FrontFigure(name, unit) for name, unit in _OF_A_PACKAGE.items()),
)

FIGURES: Mapping[str, FrontFigure] = {each.name: each for each in _ALL}
"""Every figure, by name."""


def front_figures(text: str) -> tuple[str, ...]:
    """The names in a text.

    Raises:
        InputError: an unknown name, one that is given twice, too few or too many, or none with throughput.
    """
    names = tuple(each.strip() for each in text.split(","))
    for each in names:
        if each not in FIGURES:
            rule = f"must be one of {', '.join(FIGURES)}"
            raise fail("dse codesign", "--pareto-of", each, rule, nearest(each, FIGURES))
    if len(set(names)) < len(names) or len(names) not in (2, 3):
        raise fail("dse codesign", "--pareto-of", text, "must name two or three figures, each once")
    if not any(FIGURES[each].per for each in names):
        raise fail("dse codesign", "--pareto-of", text, f"must have a figure of throughput: {', '.join(UNITS)}")
    return names
