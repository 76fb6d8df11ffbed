"""The hysteresis search (PHAZE, appendix C.1 and Algorithm 1): from the largest area downwards, until it stops paying.

Architectures are in groups of equal area (bins of 0.01 mm²), which are evaluated whole, largest first. A group's
score is the best of its architectures, each at its best HBM size. Two rules say when to stop:

- :class:`DecreasingRule`, Algorithm 1 as printed and the default: once the scores of the last ``level`` groups only
  decrease, each below the one before it. Neighbours decide, not the best so far; a high level walks far down the space.
- :class:`NoNewBestRule`: after ``level`` groups without a new best, which gives every level up to the whole space a
  meaning.

Both leave out what goes wrong in the published tool: groups in which nothing fits do not count (five at the start end
its search with nothing), and a tie is not a reduction (there it is). In the second rule a tie with the best is a new
best: of equal scores the smaller area is the answer, and the walk goes towards smaller areas.

The paper starts from the TPUv4-like machine, whose area is the default budget: it is in the first group.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dse.codesign.context import SearchContext
from dse.codesign.problem import SearchOutcome
from dse.codesign.search import sweep
from dse.codesign.search.choice import TIE
from hardware.machines import Machines

GROUP_MM2 = 0.01
"""Width of an area group (paper section C.1; published tool). It puts the paper's winner {2, 512, 256, 256} with 32 MB
in group 693 after 923 architectures, counted from zero, as the paper does."""

_ROUNDING = 1e-9


class StoppingRule(Protocol):
    """Told the score of every finished group, in order, it says when to stop."""

    def tell(self, score: float) -> None:
        """The score of the next group, 0 where nothing fits."""
        ...

    @property
    def finished(self) -> bool:
        """Whether to stop."""
        ...

    @property
    def min_groups_left(self) -> int:
        """Groups that will be looked at in any case before it stops."""
        ...


class NoNewBestRule:
    """Stop after ``level`` feasible groups without a new best; before the first feasible group nothing counts.

    Raises:
        ValueError: a level below 1.
    """

    def __init__(self, level: int) -> None:
        _positive(level)
        self._level = level
        self._best = 0.0
        self._worse = 0

    def tell(self, score: float) -> None:
        """The score of the next group, 0 where nothing fits."""
        if score <= 0:
            return
        if score >= self._best * (1 - TIE):
            self._best, self._worse = max(self._best, score), 0
        else:
            self._worse += 1

    @property
    def finished(self) -> bool:
        """Whether to stop."""
        return self._worse >= self._level

    @property
    def min_groups_left(self) -> int:
        """Groups that will be looked at in any case before it stops."""
        return self._level - self._worse


class DecreasingRule:
    """Stop when, of more than ``level`` feasible groups, the scores of the last ``level`` strictly decrease.

    One score is in decreasing order by itself, so level 1 stops after the second feasible group, as printed.

    Raises:
        ValueError: a level below 1.
    """

    def __init__(self, level: int) -> None:
        _positive(level)
        self._level = level
        self._groups = 0
        self._last = np.inf
        self._falling = 0

    def tell(self, score: float) -> None:
        """The score of the next group, 0 where nothing fits."""
        if score <= 0:
            return
        self._falling = self._falling + 1 if score < self._last * (1 - TIE) else 1
        self._last = score
        self._groups += 1

    @property
    def finished(self) -> bool:
        """Whether to stop."""
        return self._groups > self._level and self._falling >= self._level

    @property
    def min_groups_left(self) -> int:
        """Groups that will be looked at in any case before it stops."""
        return max(self._level + 1 - self._groups, self._level - self._falling, 1)


RULES: dict[str, Callable[[int], StoppingRule]] = {"decreasing": DecreasingRule, "no-new-best": NoNewBestRule}
"""The rules by name; each takes its level."""


class AreaWalk:
    """The walk over area groups as a :class:`~dse.codesign.search.sweep.Proposer`.

    Groups are requested ahead of the rule, so that workers have work, but are told to it in order: which architectures
    count depends on the rule alone.

    Args:
        area_mm2: area of every architecture, [A].
        rule: when to stop.
    """

    def __init__(self, area_mm2: npt.NDArray[np.float64], rule: StoppingRule) -> None:
        self._groups = area_groups(area_mm2)
        self._rule = rule
        self._asked = 0
        self._walked = 0
        self._scores: dict[int, float] = {}
        self._counted: list[int] = []

    def ask(self, limit: int) -> tuple[int, ...]:
        """The next groups, whole: about ``limit`` architectures."""
        chosen: list[int] = []
        for group in self._groups[self._asked :]:
            if chosen and len(chosen) + len(group) > limit:
                break
            chosen.extend(group)
            self._asked += 1
        return tuple(chosen)

    def tell(self, architecture: int, score: float) -> None:
        """The score of an architecture that was requested."""
        self._scores[architecture] = score
        while not self.finished and all(index in self._scores for index in self._groups[self._walked]):
            group = self._groups[self._walked]
            self._rule.tell(max(self._scores[index] for index in group))
            self._counted.extend(group)
            self._walked += 1

    @property
    def finished(self) -> bool:
        """Whether the rule says so, or the whole space was walked."""
        return self._rule.finished or self._walked == len(self._groups)

    @property
    def counted(self) -> Sequence[int]:
        """The architectures of the groups that were walked, in that order."""
        return self._counted

    @property
    def progress(self) -> tuple[int, int]:
        """Architectures walked and, with the groups that the rule needs at least, to be walked."""
        ahead = self._groups[self._walked : self._walked + self._rule.min_groups_left] if not self.finished else ()
        return len(self._counted), len(self._counted) + sum(map(len, ahead))


def area_groups(area_mm2: npt.NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Positions in bins of :data:`GROUP_MM2`, largest area first; inside a bin, ascending positions."""
    bins = np.floor(area_mm2 / GROUP_MM2 + _ROUNDING).astype(np.int64)
    order = np.argsort(-bins, kind="stable")
    starts = np.flatnonzero(np.diff(bins[order])) + 1
    return [tuple(int(index) for index in group) for group in np.split(order, starts) if len(group)]


def min_architectures(machines: Machines, level: int) -> int:
    """Architectures that a walk at hysteresis ``level`` evaluates at least: the first group and ``level`` more."""
    return sum(map(len, area_groups(machines.area_mm2)[: level + 1]))


def search(
    context: SearchContext, *, level: int, rule: Callable[[int], StoppingRule] = DecreasingRule
) -> SearchOutcome:
    """The walk at hysteresis ``level``: the same architectures for any number of workers."""
    proposer = AreaWalk(context.machines.area_mm2, rule(level))
    return sweep.search(context, proposer=proposer)


def _positive(level: int) -> None:
    if level < 1:
        raise ValueError(f"a hysteresis level must be at least 1, but got {level}")
