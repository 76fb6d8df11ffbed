"""What a reproduction leaves: sections of rows, charts and comparisons, from which every output is made."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from dse.run.versions import versions

SCHEMA = "dse.reproduction/1"

Row = tuple[str, ...]

OTHER_MACHINE = "the paper's time is of another machine"
"""Why two times to compute have no ratio."""

FAR = 0.2
"""Two numbers differ much where their ratio is further from 1."""

UNKNOWN = "not known"
"""The cause of a difference for which none is stated."""


@dataclass(frozen=True)
class Comparison:
    """One number of ours beside the paper's; None where there is none (the paper's, or ours in the budget).

    Attributes:
        model: what the number is of.
        cost_model: empty where the number depends on none.
        quantity, unit: what the number is.
        ours, paper: the two numbers.
        reason: why the two are not the same quantity and have no ratio; empty where they are the same.
        cause: why the two differ, where they do; empty where that is not known.
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
        """Ours / the paper's, where both are known and are the same quantity."""
        return None if self.reason else ratio(self.ours, self.paper)

    @property
    def differs_much(self) -> bool:
        """Whether the two are the same quantity and differ by more than :data:`FAR`."""
        return self.ratio is not None and abs(self.ratio - 1) > FAR

    @property
    def explanation(self) -> str:
        """Why the two have no ratio, or differ much; :data:`UNKNOWN` where they do and no cause is stated."""
        return self.reason or ((self.cause or UNKNOWN) if self.differs_much else "")


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
    """A drawing (SVG), stored in the file ``name``."""

    title: str
    name: str
    svg: str


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

        Numbers of one cost model with one cause share a row.
        """
        alike: dict[tuple[str, str], list[Comparison]] = {}
        for each in self.comparisons:
            if each.differs_much:
                alike.setdefault((each.cost_model, each.explanation), []).append(each)
        if not alike:
            return self
        rows = tuple((cost_model, _ratios(numbers), cause) for (cost_model, cause), numbers in alike.items())
        return replace(self, tables=(*self.tables, Table(DIFFERENCES, rows)))


def _ratios(comparisons: Sequence[Comparison]) -> str:
    """Quantities and ratios by model."""
    by_model: dict[str, list[str]] = {}
    for each in comparisons:
        by_model.setdefault(each.model, []).append(f"{each.quantity} {times(each.ratio)}")
    return "; ".join(f"{model}: {', '.join(each)}" for model, each in by_model.items())


DIFFERENCES = ("cost model", f"more than {100 * FAR:.0f} % from the paper's (ours / paper's)", "cause")
"""Headers of the table that :meth:`Section.with_differences` adds."""


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
    def summary(self) -> str:
        """What was run, and how long it took, for people."""
        early = f", stopped early ({self.stopped})" if self.stopped else ""
        where = f"{self.settings['workers']} worker(s)"
        return f"Fresh run of {self.seconds:,.0f} s on {where}{early}, seed {self.settings['seed']}. {self.budget}"

    def document(self) -> dict[str, Any]:
        """The reproduction as JSON types; of pictures only what they are called: they have files of their own."""
        fields = asdict(self)
        for section in fields["sections"]:
            for picture in section["pictures"]:
                del picture["svg"]
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
