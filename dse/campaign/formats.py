"""Solutions and metrics of campaigns, typed."""

from typing import Annotated

from pydantic import Field

from dse.campaign.rows import CellStatus
from hardware.inputs import Document

Count = Annotated[int, Field(ge=0)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CellsDocument(Document):
    """The cells, an entry of each list for each.

    Attributes:
        axes: by name the labels.
        baseline: the name of the baseline that a cell belongs to; empty for none.
        problem: the name of what was posed.
        status: ``failed`` where the problem refuses the cell, ``stopped`` at a limit, ``open`` where the campaign ended
            before it.
        objective, unit, sense: what was optimised.
        value, bound, gap: as of a result.
        method: that gave the answer.
        reason: why there is no value, or no proof.
        solution: the first words and numbers of the cell's solution.
        answer: the first digits of the digest of the whole solution.
    """

    axes: dict[str, list[str]]
    baseline: list[str]
    problem: list[str]
    status: list[CellStatus]
    objective: list[str]
    unit: list[str]
    sense: list[str]
    value: list[float | None]
    bound: list[float | None]
    gap: list[float | None]
    method: list[str]
    reason: list[str]
    solution: list[str]
    answer: list[str]


class SolutionDocument(Document):
    """``solution``.

    Attributes:
        cells: a table.
        figures: the numbers of the cells' metrics by name, an entry for each cell; null where it has none.
    """

    cells: CellsDocument
    figures: dict[str, list[float | None]]


class ChoiceDocument(Document):
    """One choice over all conditions.

    Attributes:
        choice: its labels, in the order of the axes that are chosen; the name of a baseline.
        baseline: whether it is one.
        answered: conditions that it has a value for.
        best: those of which no other choice has a better one.
        mean_ratio: its value over the best one, in the direction that is worse: the geometric mean, by weights. Null
            where it does not answer each condition that any choice answers.
        max_ratio: the largest.
        over: by baseline, the geometric mean of its value over that of the baseline, likewise.
    """

    choice: list[str]
    baseline: bool
    answered: Count
    best: Count
    mean_ratio: Ratio | None
    max_ratio: Ratio | None
    over: dict[str, Ratio | None]


class MetricsDocument(Document):
    """``metrics``.

    Attributes:
        counts: cells by status.
        choices: each choice over all conditions.
        least_regret: the choice with the least mean ratio of those that answer all; null where there is none.
        least_max_regret: that with the least maximum ratio.
        seconds: that each cell took.
        stopped: why the campaign ended early.
    """

    counts: dict[str, Count]
    choices: list[ChoiceDocument]
    least_regret: list[str] | None
    least_max_regret: list[str] | None
    seconds: list[Annotated[float, Field(ge=0)]]
    stopped: str | None = None
