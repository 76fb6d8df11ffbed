"""What a reproduction leaves: sections of rows, charts and comparisons, from which every output is made."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from dse.report.units import counted
from dse.run.versions import versions

SCHEMA = "dse.reproduction/1"

Row = tuple[str, ...]

OTHER_MACHINE = "the paper's time is for a different machine"
"""Why two times to compute have no ratio."""

FAR = 0.2
"""Two numbers differ much where their ratio is further from 1."""

UNKNOWN = "not known"
"""The cause of a difference for which none is stated."""


def not_measured(*readings: str) -> str:
    """The cause of a difference that is read off the paper or the models, and that no run here has tested."""
    return f"not measured: {'; '.join(readings)}"


@dataclass(frozen=True)
class Comparison:
    """One number of ours next to the paper's; None where there is none (the paper's, or ours in the budget).

    Attributes:
        model: what the number is of.
        cost_model: empty where the number depends on none.
        quantity, unit: what the number is.
        ours, paper: the two numbers.
        reason: why the two are not the same quantity and have no ratio; empty where they are the same.
        cause: why the two differ, should they differ much; empty where that is not known. Outputs have
            :attr:`explanation`.
    """

    model: str
    cost_model: str
    quantity: str
    unit: str
    ours: float | None
    paper: float | None
    reason: str = ""
    cause: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours / the paper's, where both are known, are the same quantity, and have no unlike signs."""
        value = None if self.reason else ratio(self.ours, self.paper)
        return None if value is None or value < 0 else value

    @property
    def differs_much(self) -> bool:
        """Whether the two are the same quantity and are apart by more than :data:`FAR` of the paper's, 0 or not."""
        if self.reason or self.ours is None or self.paper is None:
            return False
        return abs(self.ours - self.paper) > FAR * abs(self.paper)

    @property
    def explanation(self) -> str | None:
        """Why the two differ much, :data:`UNKNOWN` where no cause is stated; None where they do not differ much."""
        return (self.cause or UNKNOWN) if self.differs_much else None


@dataclass(frozen=True)
class Series:
    """One set of bars or dots: ``x`` (categories or numbers) and ``y`` of one length; ``labels`` are for hovering."""

    name: str
    x: tuple[str | float, ...]
    y: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure, without saying how it is drawn."""

    kind: Literal["bars", "stacked bars", "lines", "dots"]
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    logarithmic: bool = False


@dataclass(frozen=True)
class Picture:
    """A drawing, stored in the file ``name``; ``draw`` makes its SVG when that is first asked for."""

    title: str
    name: str
    draw: Callable[[], str] = field(repr=False, compare=False)

    @cached_property
    def svg(self) -> str:
        """The drawing in SVG."""
        return self.draw()


@dataclass(frozen=True)
class Table:
    """Cells for people, every row as long as the headers."""

    headers: Row
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Section:
    """One table or figure of the paper: ``tables`` for people, ``comparisons`` with every number.

    ``skipped`` says why a part was not made; None where it was.
    """

    part: str
    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    charts: tuple[Chart, ...] = ()
    pictures: tuple[Picture, ...] = ()
    skipped: str | None = None

    def with_differences(self) -> "Section":
        """The section with a last table of all numbers that differ much from the paper's, and why; itself if none do.

        Numbers under one cost model with one cause share a row; where there are no cost models, they have no column.
        """
        alike: dict[tuple[str, str], list[Comparison]] = {}
        for each in self.comparisons:
            if each.explanation is not None:
                alike.setdefault((each.cost_model, each.explanation), []).append(each)
        if not alike:
            return self
        first = 0 if any(cost_model for cost_model, _ in alike) else 1
        rows = tuple((cost_model, _far(numbers), cause)[first:] for (cost_model, cause), numbers in alike.items())
        return replace(self, tables=(*self.tables, Table(DIFFERENCES[first:], rows)))


def _far(comparisons: Sequence[Comparison]) -> str:
    """Quantities by model, each with its ratio, or with both numbers where one is not above 0."""
    by_model: dict[str, list[str]] = {}
    for each in comparisons:
        by_model.setdefault(each.model, []).append(f"{each.quantity} {_apart(each)}")
    return "; ".join(f"{model}: {', '.join(each)}" for model, each in by_model.items())


def _apart(each: Comparison) -> str:
    """How far the two numbers are from each other."""
    if each.ours is None or each.paper is None or min(each.ours, each.paper) > 0:
        return times(each.ratio)
    return f"{shown(each.ours)} for {shown(each.paper)} {each.unit}".rstrip()


DIFFERENCES = ("under", f"more than {100 * FAR:.0f} % from the paper's value (ours / paper's)", "cause")
"""Headers of the table that :meth:`Section.with_differences` adds; the first where there are cost models, or rules."""


@dataclass(frozen=True)
class Reproduction:
    """All sections of one run.

    Attributes:
        paper: its name.
        citation: authors, title, venue.
        settings: parts, options, seed and workers, as JSON types.
        budget: what the searches may use, for people.
        sections: one for each part, skipped ones too.
        seconds: that the run took.
        stopped: why the run ended early.
    """

    paper: str
    citation: str
    settings: dict[str, Any]
    budget: str
    sections: tuple[Section, ...]
    seconds: float
    stopped: str | None = None

    @property
    def verdict(self) -> str:
        """How many figures are near the paper's, in a sentence."""
        compared = [each for section in self.sections for each in section.comparisons if each.ratio is not None]
        near = sum(not each.differs_much for each in compared)
        skipped = sum(section.skipped is not None for section in self.sections)
        left_out = f"; {counted(skipped, 'part')} skipped" if skipped else ""
        return f"{near:,} of {counted(len(compared), 'figure')} within {100 * FAR:.0f} % of the paper's{left_out}"

    @property
    def summary(self) -> str:
        """What was run, and how long it took, for people."""
        early = f", stopped early ({self.stopped})" if self.stopped else ""
        where = counted(self.settings["workers"], "worker")
        return f"New run of {self.seconds:,.0f} s on {where}{early}, seed {self.settings['seed']}. {self.budget}"

    def document(self) -> dict[str, Any]:
        """The reproduction as JSON types; of pictures only what they are called: they have files of their own.

        ``cause`` of a comparison is its :attr:`~Comparison.explanation`.
        """
        fields = asdict(self)
        for section, document in zip(self.sections, fields["sections"], strict=True):
            for picture in document["pictures"]:
                del picture["draw"]
            for comparison, line in zip(section.comparisons, document["comparisons"], strict=True):
                line["cause"] = comparison.explanation
        return {"schema": SCHEMA, **fields, "versions": versions()}


def ratio(ours: float | None, paper: float | None) -> float | None:
    """Ours / paper, where both are known."""
    return None if ours is None or not paper else ours / paper


def shown(value: float | None, digits: int = 3) -> str:
    """A number for a table cell: a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def times(value: float | None) -> str:
    """A ratio for a table cell."""
    return "–" if value is None else f"{value:.2f}×"


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean of positive ``values``; None of none."""
    if not values:
        return None
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    return product
