"""The answer of a cell as a row, and the rows of a campaign as columns."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self, get_args

from dse.problem import ProblemType
from dse.results.result import Result, digest
from hardware.inputs import one_line

CellStatus = Literal["optimal", "feasible", "infeasible", "unknown", "failed", "stopped", "open"]
"""The first four as of a result. ``failed``: the problem refuses the cell. ``stopped``: by the time limit, or its
worker was lost; ``--resume`` tries it again. ``open``: the campaign ended before it."""

SETTLED = ("optimal", "infeasible")
"""What nothing can be added to."""

REPEATABLE = ("optimal", "feasible", "infeasible", "unknown", "failed")
"""What a cell gives again whenever it is answered, and what is journalled."""

_REASON_CHARACTERS = 300
_SOLUTION_CHARACTERS = 240
_ANSWER_DIGITS = 16


@dataclass(frozen=True)
class Row:
    """The answer of a cell.

    Attributes:
        status: how it ended.
        problem: the name of what was posed.
        objective, unit, sense: what was optimised; empty where the cell was not posed.
        value, bound, gap: as of a result.
        method: that gave the answer.
        reason: why there is no value, or no proof, in one line; empty for none.
        solution: its first words and numbers, such as the keys of a plan or the sizes of a chip.
        answer: the first digits of the digest of the whole solution; empty where there is none.
        figures: the numbers of its metrics, by name.
        seconds: that the cell took.
    """

    status: CellStatus
    problem: str = ""
    objective: str = ""
    unit: str = ""
    sense: str = ""
    value: float | None = None
    bound: float | None = None
    gap: float | None = None
    method: str = ""
    reason: str = ""
    solution: str = ""
    answer: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """In JSON types, without what is as in an empty row."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "", {})}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """The row that :meth:`document` wrote.

        Raises:
            TypeError, ValueError: it is none.
        """
        row = cls(**document)
        if row.status not in get_args(CellStatus):
            raise ValueError(f"status {row.status}")
        return row


OPEN = Row("open")


def row_of(kind: ProblemType[Any, Any], result: Result, seconds: float, stopped: str | None) -> Row:
    """The row of a result; ``stopped``: why the cell was stopped, if it was."""
    is_stopped = stopped is not None and result.status not in SETTLED
    proof = result.infeasibility
    return Row(
        status="stopped" if is_stopped else "unknown" if result.status == "interrupted" else result.status,
        problem=result.problem.name,
        objective=result.objective.name,
        unit=result.objective.unit,
        sense=result.objective.sense,
        value=result.objective.value,
        bound=result.bound,
        gap=result.gap,
        method=result.method,
        reason=_line(stopped or "") if is_stopped else "" if proof is None else _line(proof.explanation),
        solution=_first_leaves(result.solution),
        answer=digest(result.solution).removeprefix("sha256:")[:_ANSWER_DIGITS] if result.solution else "",
        figures={
            key: float(value)
            for key, value in result.metrics.items()
            if key not in kind.unchecked and type(value) in (int, float) and math.isfinite(value)
        },
        seconds=seconds,
    )


def refused(error: Exception | str, status: CellStatus = "failed", seconds: float = 0.0) -> Row:
    """The row of a cell without a result."""
    return Row(status, reason=_line(str(error)), seconds=seconds)


def _first_leaves(solution: Mapping[str, Any]) -> str:
    """The first words and numbers of a solution, each with its own key, as far as a line goes."""
    text = ""
    for key, value in _leaves(solution):
        more = f"{', ' if text else ''}{key}={value}"
        if len(text) + len(more) > _SOLUTION_CHARACTERS:
            break
        text += more
    return text


def _leaves(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif isinstance(value, bool):
            yield key, "yes" if value else "no"
        elif isinstance(value, int | float | str):
            yield key, f"{value:.6g}" if isinstance(value, float) else str(value)


def _line(text: str) -> str:
    return one_line(next(iter(text.strip().splitlines()), ""), _REASON_CHARACTERS)


PLAIN = tuple(each.name for each in fields(Row) if each.name not in ("figures", "seconds"))
"""Columns that every cell has."""


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """An entry of each list for each row."""
    return {name: [getattr(row, name) for row in rows] for name in PLAIN}


def figures_of(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """The figures by name, an entry for each row; None where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row.figures)
    return {name: [row.figures.get(name) for row in rows] for name in names}


def rows_of(columns: Mapping[str, Sequence[Any]], figures: Mapping[str, Sequence[float | None]]) -> list[Row]:
    """The rows that :func:`columns_of` and :func:`figures_of` were made of."""
    return [
        Row(
            **dict(zip(PLAIN, values, strict=True)),
            figures={name: value for name, each in figures.items() if (value := each[number]) is not None},
        )
        for number, values in enumerate(zip(*(columns[name] for name in PLAIN), strict=True))
    ]


def counts_of(rows: Iterable[Row]) -> dict[str, int]:
    """How many cells ended in each way."""
    counts = dict.fromkeys(get_args(CellStatus), 0)
    for row in rows:
        counts[row.status] += 1
    return counts
