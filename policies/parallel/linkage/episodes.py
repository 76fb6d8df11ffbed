"""Episodes of operator and data plans: one dimension after the other is split or left whole (paper, 4.2 and 4.3).

A decision on a dimension of a linkage group holds for the whole group, and where that is split, every group that it
meets is whole. What follows from a decision counts for its reward: +0.4 for each dimension that becomes split, +0.1
for each that becomes whole. A conflict costs 1 and ends the episode. Data plans have no linkage groups (4.3): every
dimension is decided for itself, and one that contradicts what is known is a conflict.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.parallel.episodes import Actions, Floats32, Masks
from policies.parallel.linkage.dimensions import Dimensions, Integers
from policies.parallel.settings import Layout

SPLIT_REWARD, WHOLE_REWARD, CONFLICT_REWARD = 0.4, 0.1, -1.0
SPLIT, WHOLE, OPEN = 1, 0, -1

_MAX_PLANS = 32

Statuses = npt.NDArray[np.int8]


@dataclass(frozen=True)
class SplitPlan:
    """A plan without conflicts.

    Attributes:
        split: numbers of the split groups among :attr:`Dimensions.numbers`, rising.
        dimensions: how many decided dimensions they have.
    """

    split: tuple[int, ...]
    dimensions: int


class DecisionSource:
    """Episodes on one step; it keeps the best plans of all of them.

    Args:
        dimensions: what is decided.
        linked: whether decisions hold for whole linkage groups.
        seed: of back-tracing.

    Attributes:
        start: the plan that episodes begin from, with a part of it open again (:meth:`trace_back`); None: nothing.
    """

    actions = 2

    def __init__(self, dimensions: Dimensions, linked: bool, seed: int = 0) -> None:
        self.dimensions, self.linked = dimensions, linked
        self._seed = seed
        places, groups = len(dimensions.places), len(dimensions.numbers)
        self.steps = max(1, groups if linked else places)
        self.layout = Layout(2, places, 1, self.actions)
        self.features = self.layout.size
        self.start: SplitPlan | None = None
        self.plans: OrderedDict[tuple[int, ...], SplitPlan] = OrderedDict()
        self.evaluations = 0
        self.conflicts = 0

    @property
    def best(self) -> SplitPlan | None:
        """The plan that splits most; of equal ones the first."""
        return next(iter(self.plans.values()), None)

    def episodes(self, number: int, count: int) -> "DecisionEpisodes":
        """So many; where there is a start, each opens another part of it."""
        draw = np.random.default_rng((self._seed, number))
        return DecisionEpisodes(self, np.stack([self.opened(draw) for _ in range(count)]))

    def trace_back(self) -> bool:
        """Let episodes begin from the best plan (second stage, 5.2.1); whether there is one with a whole group."""
        best = self.best
        if best is None or not self.dimensions.splittable[self._whole(best)].any():
            return False
        self.start = best
        return True

    def opened(self, draw: np.random.Generator) -> Statuses:
        """What is known of every group when an episode begins, [G].

        In the second stage one group that is whole is traced back to the split groups that exclude it: these and all
        that is whole are open again, unless it follows from what is still split.
        """
        dimensions = self.dimensions
        statuses = np.full(len(dimensions.numbers), OPEN, dtype=np.int8)
        if self.start is None:
            return statuses
        whole = np.array([each for each in self._whole(self.start) if dimensions.splittable[each]])
        traced = int(draw.choice(whole))
        split = [each for each in self.start.split if not dimensions.excludes[each, traced]]
        statuses[split] = SPLIT
        statuses[dimensions.excludes[split].any(axis=0)] = WHOLE
        return statuses

    def take(self, statuses: Statuses) -> None:
        """Keep a complete plan, by the statuses of its groups [G]."""
        self.evaluations += 1
        split = tuple(np.flatnonzero(statuses == SPLIT).tolist())
        if split in self.plans:
            return
        self.plans[split] = SplitPlan(split, int(self.dimensions.weights[list(split)].sum()))
        if len(self.plans) > _MAX_PLANS or split:
            ordered = sorted(self.plans.items(), key=lambda item: -item[1].dimensions)[:_MAX_PLANS]
            self.plans = OrderedDict(ordered)

    def _whole(self, plan: SplitPlan) -> list[int]:
        return [each for each in range(len(self.dimensions.numbers)) if each not in plan.split]


class DecisionEpisodes:
    """Episodes of a source, each from its own start.

    Args:
        source: where plans are kept.
        statuses: what is known of every group at the start, [B, G].
    """

    def __init__(self, source: DecisionSource, statuses: Statuses) -> None:
        self._source = source
        self.statuses = statuses
        self._ended = np.zeros(len(statuses), dtype=bool)
        self._place = np.zeros(len(statuses), dtype=np.int64)
        self._decided = np.full((len(statuses), len(source.dimensions.places)), OPEN, dtype=np.int8)
        self._advance(np.arange(len(statuses)))

    @property
    def places(self) -> Integers:
        """The dimension that is decided next, [B]; D behind the last one."""
        return self._place

    def observations(self) -> Floats32:
        """What is known of every dimension, and the position, as in the paper."""
        source, layout = self._source, self._source.layout
        seen = np.zeros((len(self.statuses), layout.size), dtype=np.float32)
        channels, context, masks = layout.parts(seen)
        running = np.flatnonzero(~self._ended)
        at = self._place[running]
        context[running, 0] = at / max(1, len(source.dimensions.places))
        channels[:, 0] = self._known()
        channels[running, 1, at] = 1
        masks[running] = 1
        return seen

    def step(self, actions: Actions) -> tuple[npt.NDArray[np.float64], Masks]:
        """Split (1) or leave whole (0) the dimension of each episode."""
        rewards = np.zeros(len(actions))
        for episode in np.flatnonzero(~self._ended).tolist():
            rewards[episode] = self._decide(episode, bool(actions[episode]))
        self._advance(np.flatnonzero(~self._ended))
        return rewards, self._ended.copy()

    def _decide(self, episode: int, split: bool) -> float:
        source, dimensions = self._source, self._source.dimensions
        place = int(self._place[episode])
        group, statuses = int(dimensions.group[place]), self.statuses[episode]
        known = WHOLE if group < 0 else int(statuses[group])
        if group >= 0 and split and not dimensions.splittable[group]:
            known = WHOLE
        if known != OPEN and known != int(split):
            self._ended[episode] = True
            source.conflicts += 1
            return CONFLICT_REWARD
        before = statuses.copy()
        if group >= 0:
            statuses[group] = int(split)
            if split:
                statuses[dimensions.excludes[group]] = WHOLE
        self._decided[episode, place] = int(split)
        if not source.linked:
            return SPLIT_REWARD if split else WHOLE_REWARD
        new = np.flatnonzero(before != statuses)
        counts = dimensions.weights[new]
        is_split = statuses[new] == SPLIT
        return float(SPLIT_REWARD * counts[is_split].sum() + WHOLE_REWARD * counts[~is_split].sum())

    def _advance(self, episodes: Integers) -> None:
        """To the next dimension that is not known; plans that are complete are kept."""
        source, dimensions = self._source, self._source.dimensions
        for episode in episodes.tolist():
            if source.linked:
                is_open = (dimensions.group >= 0) & (self.statuses[episode][dimensions.group] == OPEN)
            else:
                is_open = self._decided[episode] == OPEN
            left = np.flatnonzero(is_open)
            self._place[episode] = left[0] if len(left) else len(dimensions.places)
            if not len(left):
                self._ended[episode] = True
                source.take(self.statuses[episode])

    def _known(self) -> npt.NDArray[np.int8]:
        """1, 0 or -1 of every dimension, [B, D]."""
        if not self._source.linked:
            return self._decided
        group = self._source.dimensions.group
        return np.where(group >= 0, self.statuses[:, group], WHOLE).astype(np.int8)
