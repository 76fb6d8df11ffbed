"""Training on one problem (paper, 3.4 and 4.4): every step of an episode cuts at a pivot, which implies the devices."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from dse.parallel.pipeline.exact import server_cuts
from dse.parallel.pipeline.problem import DeviceCutting, Floats, Integers, PipelinePlan, PipelineProblem
from policies.parallel.episodes import UNSCALED, Actions, Floats32, Masks, scale_of
from policies.parallel.pipeline.candidates import Candidates, candidates
from policies.parallel.pipeline.pricing import Pricing, plan_of
from policies.parallel.pipeline.pricing_kernels import ALL_REDUCE, BALANCE, FITS, LENGTH, SEND
from policies.parallel.settings import Layout, Reward

CHANNELS = ("all-reduce of the pipeline", "largest transfer", "least over largest stage", "share of the work", "is cut")
"""Of every pivot: the paper's three features if it is cut now, where it stands, and the cuts so far."""

SCALED = 64
"""Random episodes that the scale of rewards comes from."""

MAX_STAGES = 4
"""Of the paper. Longer pipelines are cut as well, but later cuts look alike to the network."""


SHORTEST = 16
"""Plans that a search is known by. Those of deep Q-learning are all improved in the end.

On six steps that are in no table, cut for 24 and 32 V100s, improving sixteen of 600 random plans leads to within 1 % of
the optimum in 43 of 48 cases, improving eight in 35.
"""

STARTS = 8
"""The shortest of them, which every other search improves.

On 48 generated pipelines of three families, improving the shortest eight of 50 plans of the packaged policy, and that
of equal computing, brings all within 1 % of the optimum; of as many random plans, 46 within 2 %, the worst 4.6 % off.
"""


@dataclass
class Best:
    """The shortest plans that were seen, and how many were priced.

    Attributes:
        shortest: at most :data:`SHORTEST` different ones with their lengths, the shortest first.
        evaluations: all plans.
    """

    shortest: list[tuple[float, PipelinePlan]] = field(default_factory=list)
    evaluations: int = 0

    @classmethod
    def of(cls, plan: PipelinePlan, length_s: float, evaluations: int = 0) -> "Best":
        """Of one plan."""
        return cls([(length_s, plan)], evaluations)

    @classmethod
    def of_all(cls, searches: Iterable["Best"]) -> "Best":
        """The shortest plans of several searches, with the evaluations of all."""
        return reduce(cls.with_other, searches, cls())

    @property
    def plan(self) -> PipelinePlan | None:
        """The shortest one."""
        return self.shortest[0][1] if self.shortest else None

    @property
    def length_s(self) -> float:
        """Of the shortest one; infinite without any."""
        return self.shortest[0][0] if self.shortest else np.inf

    @property
    def _limit_s(self) -> float:
        """Plans from here on are not among the shortest."""
        return self.shortest[-1][0] if len(self.shortest) == SHORTEST else np.inf

    def take(self, cuts: Integers, device_cuts: Integers, prices: Floats) -> None:
        """Plans [B, K - 1] with their prices [B, 5]."""
        self.evaluations += len(cuts)
        lengths = np.where(prices[:, FITS] > 0, prices[:, LENGTH], np.inf)
        (places,) = np.nonzero(lengths < self._limit_s)
        for place in places[lengths[places].argsort(kind="stable")[:SHORTEST]].tolist():
            self.add(plan_of(cuts[place], device_cuts[place]), float(lengths[place]))

    def add(self, plan: PipelinePlan, length_s: float) -> None:
        """A plan that fits, which is behind those of the same length."""
        if length_s < self._limit_s and all(plan != each for _, each in self.shortest):
            self.shortest = sorted([*self.shortest, (length_s, plan)], key=lambda each: each[0])[:SHORTEST]

    def with_other(self, other: "Best") -> "Best":
        """The shortest plans of both, this one's first of equal ones, with the evaluations of both."""
        both = Best(list(self.shortest), self.evaluations + other.evaluations)
        for length_s, plan in other.shortest:
            both.add(plan, length_s)
        return both


def rewards(prices: Floats, unit_s: float, reward: Reward) -> Floats:
    """1/√L (3.4) or 1/L (4.4); of plans that do not fit −1/√L. L in units of a batch with all devices busy.

    Args:
        prices: prices, [B, 5].
        unit_s: :attr:`Pricing.unit_s`.
        reward: which.
    """
    length = prices[:, LENGTH] / unit_s
    good = 1 / np.sqrt(length) if reward == "root" else 1 / length
    return np.where(prices[:, FITS] > 0, good, -1 / np.sqrt(length))


class PipelineTrainingSource:
    """Episodes of one problem; it keeps the shortest plan of all of them.

    Args:
        problem: what is cut.
        cutting: which device cuts are allowed.
        reward: of a plan.
    """

    def __init__(self, problem: PipelineProblem, cutting: DeviceCutting, reward: Reward = "root") -> None:
        self.pricing = Pricing(problem)
        self.candidates: Candidates = candidates(problem, cutting)
        self.reward = reward
        fixed = server_cuts(problem) if cutting == "equal" else None
        self._device_cuts = None if fixed is None else np.array(fixed, dtype=np.int64)
        self.actions = len(self.candidates.cuts)
        self.steps = problem.stages - 1
        self.layout = Layout(len(CHANNELS), self.actions, MAX_STAGES + 1)
        self.features = self.layout.size
        self.best = Best()
        self._seen: dict[tuple[int, ...], Floats] = {}
        self.scale = UNSCALED
        if self.is_open:
            self.scale = scale_of(_Episodes(self, SCALED), self.actions, 0)
            self.best = Best()

    @property
    def is_open(self) -> bool:
        """Whether there is a plan at all."""
        return self.steps > 0 and bool(self.candidates.legal[0].any())

    def episodes(self, number: int, count: int) -> "_Episodes":
        """From the beginning; ``number`` does not matter."""
        return _Episodes(self, count)

    def device_cuts(self, chosen: Integers) -> Integers:
        """Of chosen candidates [B, k], [B, k]."""
        if self._device_cuts is not None:
            return np.broadcast_to(self._device_cuts[: chosen.shape[1]], chosen.shape)
        return self.candidates.devices[chosen]

    def channels(self, chosen: tuple[int, ...]) -> Floats:
        """The first three channels behind these candidates, [3, P], about between 0 and 1; 0 where none may be cut."""
        if chosen not in self._seen:
            self._seen[chosen] = self._channels(chosen)
        return self._seen[chosen]

    def _channels(self, chosen: tuple[int, ...]) -> Floats:
        channels = np.zeros((3, self.actions))
        legal = np.flatnonzero(self.mask(chosen))
        plans = np.empty((len(legal), len(chosen) + 1), dtype=np.int64)
        plans[:, :-1], plans[:, -1] = chosen, legal
        prices = self.pricing.prices(self.candidates.cuts[plans], self.device_cuts(plans))
        unit_s = self.pricing.unit_s
        channels[0, legal] = np.sqrt(prices[:, ALL_REDUCE] / unit_s)
        channels[1, legal] = np.sqrt(prices[:, SEND] * self.pricing.problem.microbatches / unit_s)
        channels[2, legal] = prices[:, BALANCE]
        return channels

    def mask(self, chosen: tuple[int, ...]) -> Masks:
        """Which candidates may be the next cut, [P]."""
        legal: Masks = self.candidates.legal[len(chosen)].copy()
        if chosen:
            legal &= self.candidates.follows[chosen[-1]]
        return legal


class _Episodes:
    """Episodes of :class:`PipelineTrainingSource`; all end with the last cut."""

    def __init__(self, source: PipelineTrainingSource, count: int) -> None:
        self._source = source
        self._chosen = np.zeros((count, 0), dtype=np.int64)

    def observations(self) -> Floats32:
        source, layout = self._source, self._source.layout
        count, made = self._chosen.shape
        seen = np.zeros((count, layout.size), dtype=np.float32)
        places, context, masks = layout.parts(seen)
        share = source.pricing.work_s[source.candidates.cuts] / source.pricing.work_s[-1]
        places[:, 3] = share
        context[:, min(made, MAX_STAGES - 1)] = 1
        if made:
            np.put_along_axis(places[:, 4], self._chosen, 1.0, axis=1)
            context[:, MAX_STAGES] = share[self._chosen[:, -1]]
        if made < source.steps:
            distinct, place = np.unique(self._chosen, axis=0, return_inverse=True)
            features = np.array([source.channels(tuple(each)) for each in distinct.tolist()])
            places[:, :3] = features[place.reshape(count)]
            masks[:] = np.array([source.mask(tuple(each)) for each in distinct.tolist()])[place.reshape(count)]
        return seen

    def step(self, actions: Actions) -> tuple[Floats, Masks]:
        source = self._source
        self._chosen = np.concatenate([self._chosen, actions[:, None]], axis=1)
        count = len(actions)
        if self._chosen.shape[1] < source.steps:
            return np.zeros(count), np.zeros(count, dtype=bool)
        cuts, device_cuts = source.candidates.cuts[self._chosen], source.device_cuts(self._chosen)
        prices = source.pricing.prices(cuts, device_cuts)
        source.best.take(cuts, device_cuts, prices)
        earned = rewards(prices, source.pricing.unit_s, source.reward)
        return source.scale.scaled(earned), np.ones(count, dtype=bool)
