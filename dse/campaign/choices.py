"""Which choice is best where, and what one choice for all conditions loses.

The *regret* of choice c under condition w is the ratio of its value to the best one there, in the direction that is
worse, which is at least 1::

    r(c, w) = v(c, w) / min over c' of v(c', w)    of what is minimised
    r(c, w) = max over c' of v(c', w) / v(c, w)    of what is maximised

A choice is as good as its weighted geometric mean of r over the conditions; a condition that no choice answers counts
for none, and a choice that leaves open one which another choice answers has no mean. Neither has one whose regret is
infinite, as that of 1 s where the best is 0 s. Baselines are measured by the same
ratio, but never count as the best choice, so that theirs may be below 1.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dse.campaign.problem import Campaign, Cell
from dse.campaign.rows import Row
from dse.results.result import PROOF_TOLERANCE

Condition = tuple[int, ...]
Choice = tuple[int, ...]
"""Places of values on the axes of conditions, or on those that are chosen; of a baseline, -1 and its number."""


@dataclass(frozen=True)
class Over:
    """One choice over a set of conditions; attributes as of :class:`~dse.campaign.formats.ChoiceDocument`."""

    choice: Choice
    answered: int
    best: int
    mean_ratio: float | None
    max_ratio: float | None


class Grid:
    """The values of all choices under all conditions.

    Attributes:
        campaign: its cells.
        choices: in the order of the cells, baselines last.
        conditions: likewise.
    """

    def __init__(self, campaign: Campaign, rows: Sequence[Row]) -> None:
        self.campaign = campaign
        self._rows: dict[Condition, dict[Choice, Row]] = defaultdict(dict)
        choices: dict[Choice, None] = {}
        for cell, row in zip(campaign.cells, rows, strict=True):
            choice = choice_of(campaign, cell)
            choices[choice] = None
            self._rows[condition_of(campaign, cell)][choice] = row
        self.choices = tuple(choices)
        self.conditions = tuple(self._rows)
        self._ratios = {condition: _ratios(by_choice) for condition, by_choice in self._rows.items()}
        self._weights = {condition: self._weight(condition) for condition in self.conditions}

    def _weight(self, condition: Condition) -> float:
        weight = 1.0
        for number, place in zip(self.campaign.conditions, condition, strict=True):
            label = self.campaign.axes[number].values[place].label
            weight *= self.campaign.weights.get(number, {}).get(label, 1.0)
        return weight

    def row(self, condition: Condition, choice: Choice) -> Row | None:
        """Of a cell, if there is one."""
        return self._rows[condition].get(choice)

    def over(self, choice: Choice, conditions: Iterable[Condition]) -> Over:
        """A choice over ``conditions``."""
        answerable = [each for each in conditions if self._ratios[each]]
        own = [(each, self._ratios[each][choice]) for each in answerable if choice in self._ratios[each]]
        ratios = [ratio for _, ratio in own]
        is_whole = bool(own) and len(own) == len(answerable)
        return Over(
            choice,
            len(own),
            sum(ratio <= 1 + PROOF_TOLERANCE for ratio in ratios),
            _mean([(self._weights[each], ratio) for each, ratio in own]) if is_whole else None,
            _finite(max(ratios)) if is_whole else None,
        )

    def best(self, conditions: Sequence[Condition]) -> Over | None:
        """The choice, no baseline, with the least mean ratio over ``conditions``; of several the first."""
        whole = [over for over in (self.over(each, conditions) for each in self.choices if each[0] >= 0)
                 if over.mean_ratio is not None]  # fmt: skip
        return min(whole, key=lambda over: over.mean_ratio or math.inf, default=None)

    def against(self, choice: Choice, baseline: int) -> float | None:
        """The geometric mean of the ratios of ``choice`` over those of a baseline, where both have one."""
        other = (-1, baseline)
        pairs = [
            (self._weights[each], ratios[choice] / ratios[other] if 0 < ratios[other] < math.inf else math.inf)
            for each, ratios in self._ratios.items()
            if choice in ratios and other in ratios
        ]
        return _mean(pairs) if pairs else None

    def labels(self, choice: Choice) -> list[str]:
        """Of a choice for people."""
        if choice[0] < 0:
            return [self.campaign.baselines[choice[1]].name]
        chosen = zip(self.campaign.chosen, choice, strict=True)
        return [self.campaign.axes[number].values[place].label for number, place in chosen]

    def metrics(self) -> dict[str, Any]:
        """What the metrics say of choices."""
        overs = [self.over(choice, self.conditions) for choice in self.choices]
        whole = [over for over in overs if over.mean_ratio is not None and over.choice[0] >= 0]
        best = min(whole, key=lambda over: over.mean_ratio or math.inf, default=None)
        robust = min(whole, key=lambda over: over.max_ratio or math.inf, default=None)
        return {
            "choices": [
                {
                    "choice": self.labels(over.choice),
                    "baseline": over.choice[0] < 0,
                    "answered": over.answered,
                    "best": over.best,
                    "mean_ratio": over.mean_ratio,
                    "max_ratio": over.max_ratio,
                    "over": {
                        each.name: self.against(over.choice, number)
                        for number, each in enumerate(self.campaign.baselines)
                    },
                }
                for over in overs
            ],
            "least_regret": None if best is None else self.labels(best.choice),
            "least_max_regret": None if robust is None else self.labels(robust.choice),
        }


def choice_of(campaign: Campaign, cell: Cell) -> Choice:
    """The choice that ``cell`` belongs to."""
    return (-1, cell.baseline) if cell.baseline >= 0 else tuple(cell.places[number] for number in campaign.chosen)


def condition_of(campaign: Campaign, cell: Cell) -> Condition:
    """The condition that ``cell`` belongs to."""
    return tuple(cell.places[number] for number in campaign.conditions)


def _ratios(by_choice: Mapping[Choice, Row]) -> dict[Choice, float]:
    """Value over the best one, by choice; none where values cannot be compared."""
    values = {choice: row for choice, row in by_choice.items() if row.value is not None and row.value >= 0}
    own = [row.value for choice, row in values.items() if choice[0] >= 0 and row.value is not None]
    if not own or len({(row.objective, row.unit, row.sense) for row in values.values()}) > 1:
        return {}
    sense = next(iter(values.values())).sense
    best = min(own) if sense == "min" else max(own)
    return {
        choice: _ratio(row.value, best) if sense == "min" else _ratio(best, row.value)
        for choice, row in values.items()
        if row.value is not None
    }


def _ratio(worse: float, better: float) -> float:
    """The ratio of two values, of which either may be 0."""
    if better > 0:
        return worse / better
    return 1.0 if worse == 0 else math.inf


def _finite(ratio: float) -> float | None:
    return ratio if 0 < ratio < math.inf else None


def _mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The weighted geometric mean of (weight, ratio); None where a ratio is 0 or infinite."""
    if any(_finite(ratio) is None for _, ratio in pairs):
        return None
    total = math.fsum(weight for weight, _ in pairs)
    return math.exp(math.fsum(weight * math.log(ratio) for weight, ratio in pairs) / total)
