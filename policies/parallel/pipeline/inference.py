"""Online inference (paper, 3.5 and 4.5): C*, A* and W* at 128 places, the machine, and the cuts so far.

An episode decides cut by cut: first the pivot, in the next step the devices in front of it; both are one action space.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.parallel.pipeline.problem import RADIUS, DeviceCutting, Floats, Integers, PipelineProblem
from policies.parallel.episodes import UNSCALED, Actions, Floats32, Masks, Scale, scale_of
from policies.parallel.pipeline.candidates import GRANULARITY, coarse_cuts
from policies.parallel.pipeline.machines import link_speeds
from policies.parallel.pipeline.online import MAX_STAGES, SCALED, Best, rewards
from policies.parallel.pipeline.pricing import Lines, Pricing, prefix
from policies.parallel.settings import Layout, Reward

CHANNELS = (
    "C*",
    "A*",
    "W*",
    "is a cut so far",
    "link speed",
    "devices in front",
    "is a device cut so far",
    "C* - share",
)
"""Of every place; the last says how far its computing is from that of the devices' (or the cut's) share."""

CONTEXT = 2 * (MAX_STAGES - 1) + 7

FEATURES = (*CHANNELS, *(f"context {place}" for place in range(CONTEXT)))

LAYOUT = Layout(len(CHANNELS), GRANULARITY, CONTEXT)


@dataclass(frozen=True, eq=False)
class Coarse:
    """A problem at so many places, with what the network sees of it.

    Attributes:
        pricing: of the problem.
        cuts: of the points, [P], rising.
        computing, sent, weights: C*, A* and W*, each over its own maximum, [P].
        ratios: logarithms of the other two maxima over the first, in seconds: transfers and all-reduces of the whole
            batch over computing with all devices.
        speeds: of links (:func:`link_speeds`), [D].
        variables: trained tensors in front of each cut, [P].
        all_variables: of the problem.
        cutting: which device cuts are allowed.
    """

    pricing: Pricing
    cuts: Integers
    computing: Floats
    sent: Floats
    weights: Floats
    ratios: Floats
    speeds: Floats
    variables: Floats
    all_variables: float
    cutting: DeviceCutting

    @property
    def radius(self) -> int:
        """How far device cuts may be from those of equal parts."""
        return {"equal": 0, "near": RADIUS, "free": self.pricing.problem.devices}[self.cutting]


def coarse(problem: PipelineProblem, cutting: DeviceCutting, lines: Lines | None = None) -> Coarse:
    """A problem as the network sees it (paper, 4.5.1).

    The paper scales all three arrays by one common maximum, regardless of units. Here each has its own, and the ratios
    between them, as times, are separate inputs.
    """
    profile, devices = problem.profile, problem.devices
    pricing = Pricing(problem, lines)
    cuts = coarse_cuts(problem)
    work, weight, sent = pricing.work_s[cuts], pricing.weight_bytes[cuts], profile.cut_bytes[cuts].astype(np.float64)
    half = devices // 2
    send_s = problem.network.stage_transfer_s(float(sent.max()), range(half - 1, half), range(half, half + 1))
    reduce_s = sum(
        ring.seconds(float(pricing.weight_bytes[-1])) for ring in problem.network.all_reduce_rings(range(devices))
    )
    ratios = np.log10(np.maximum([send_s, reduce_s], 1e-9) / pricing.unit_s)
    variables = prefix(profile.variables)
    return Coarse(
        pricing,
        cuts,
        work / pricing.work_s[-1],
        sent / (sent.max() or 1.0),
        weight / (pricing.weight_bytes[-1] or 1.0),
        ratios,
        link_speeds(problem.network, devices),
        variables[cuts],
        float(variables[-1]),
        cutting,
    )


class InferenceEpisodes:
    """Episodes of several problems, one each; those of fewer stages end earlier.

    Args:
        problems: one for each episode; the same one may be there several times.
        best: that take the plans of each problem, by its place in ``problems``; None: nobody does.
        reward: of a plan.
        scales: in which it is told; None: as it is.
    """

    def __init__(
        self,
        problems: Sequence[Coarse],
        best: Sequence[Best] | None = None,
        reward: Reward = "inverse",
        scales: Sequence[Scale] | None = None,
    ) -> None:
        self._reward_kind: Reward = reward
        self._scales = scales or [UNSCALED] * len(problems)
        self._problems, self._best = problems, best
        self._stages = np.array([each.pricing.problem.stages for each in problems])
        self._devices = np.array([each.pricing.problem.devices for each in problems])
        self._made = 0
        cuts = int(self._stages.max()) - 1
        self._pivots, self._device_cuts = (
            np.zeros((len(problems), cuts), np.int64),
            np.zeros((len(problems), cuts), np.int64),
        )
        self._fixed = np.zeros((len(problems), LAYOUT.channels, LAYOUT.places), dtype=np.float32)
        self._context = np.zeros((len(problems), CONTEXT), dtype=np.float32)
        for row, each in enumerate(problems):
            self._describe(row, each)

    def _describe(self, row: int, each: Coarse) -> None:
        """What never changes in an episode."""
        places, problem = len(each.cuts), each.pricing.problem
        fixed, count = self._fixed[row], min(problem.devices, LAYOUT.places)
        fixed[0, :places], fixed[1, :places], fixed[2, :places] = each.computing, each.sent, each.weights
        fixed[4, :count] = each.speeds[:count]
        fixed[5, :count] = np.arange(count) / problem.devices
        own = (*each.ratios, problem.stages / MAX_STAGES, problem.devices / 32, np.log10(problem.microbatches))
        self._context[row, -7:-2] = own

    def observations(self) -> Floats32:
        """:data:`FEATURES` of every place, and the mask."""
        count, (turn, is_device) = len(self._problems), divmod(self._made, 2)
        seen = np.zeros((count, LAYOUT.size), dtype=np.float32)
        places, context, masks = LAYOUT.parts(seen)
        places[:], context[:] = self._fixed, self._context
        context[:, min(self._made, 2 * (MAX_STAGES - 1) - 1)] = 1
        rows = np.arange(count)
        for cut in range(min(turn, self._pivots.shape[1])):
            places[rows, 3, self._pivots[:, cut]] = 1
            places[rows, 6, self._device_cuts[:, cut]] = 1
        if turn:
            context[:, -2] = self._fixed[rows, 0, self._pivots[:, turn - 1]]
            context[:, -1] = self._device_cuts[:, turn - 1] / self._devices
        if is_device and turn < self._pivots.shape[1]:
            pivot = self._pivots[:, turn]
            places[rows, 3, pivot] = 1
            places[:, 7] = self._fixed[:, 5] - self._fixed[rows, 0, pivot][:, None]
        else:
            places[:, 7] = self._fixed[:, 0] - ((turn + 1) / self._stages)[:, None]
        masks[:] = self._masks()
        return seen

    def _masks(self) -> Masks:
        turn, is_device = divmod(self._made, 2)
        masks = np.zeros((len(self._problems), LAYOUT.places), dtype=bool)
        for row, each in enumerate(self._problems):
            if turn < self._stages[row] - 1:
                masks[row] = self._devices_mask(row, each, turn) if is_device else self._pivots_mask(row, each, turn)
        return masks

    def _pivots_mask(self, row: int, each: Coarse, turn: int) -> Masks:
        """Behind the pivot before, a trained tensor on both sides, and as many more as stages follow."""
        mask = np.zeros(LAYOUT.places, dtype=bool)
        before = each.variables[self._pivots[row, turn - 1]] if turn else 0.0
        levels = np.unique(each.variables[(each.variables > before) & (each.variables < each.all_variables)])
        later = int(self._stages[row]) - 2 - turn
        if len(levels) > later:
            highest = levels[len(levels) - 1 - later]
            mask[: len(each.cuts)] = (each.variables > before) & (each.variables <= highest)
        return mask

    def _devices_mask(self, row: int, each: Coarse, turn: int) -> Masks:
        """At most the paper's radius from the centre's, unless they are cut freely."""
        stages, devices = int(self._stages[row]), int(self._devices[row])
        mask = np.zeros(LAYOUT.places, dtype=bool)
        center = devices * (turn + 1) / stages
        radius = each.radius
        lowest = (int(self._device_cuts[row, turn - 1]) if turn else 0) + 1
        low, high = max(lowest, int(np.ceil(center - radius))), min(devices - (stages - 1 - turn), int(center + radius))
        mask[low : high + 1] = True
        return mask

    def step(self, actions: Actions) -> tuple[Floats, Masks]:
        """Choose a pivot, or the devices in front of it."""
        turn, is_device = divmod(self._made, 2)
        running = turn < self._stages - 1
        self._made += 1
        earned, done = np.zeros(len(actions)), ~running
        if not is_device:
            self._pivots[running, turn] = actions[running]
            return earned, done
        self._device_cuts[running, turn] = actions[running]
        for row in np.flatnonzero(running & (turn == self._stages - 2)).tolist():
            earned[row], done[row] = self._reward(row), True
        return earned, done

    def _reward(self, row: int) -> float:
        """Of a finished plan: 1/L, in units of a batch with all devices busy (paper, 4.5.2), or as the others."""
        each = self._problems[row]
        cuts = each.cuts[self._pivots[row : row + 1, : self._stages[row] - 1]]
        device_cuts = self._device_cuts[row : row + 1, : self._stages[row] - 1]
        prices = each.pricing.prices(cuts, device_cuts)
        if self._best is not None:
            self._best[row].take(cuts, device_cuts, prices)
        earned = rewards(prices, each.pricing.unit_s, self._reward_kind)
        return float(self._scales[row].scaled(earned)[0])


class ProblemSource:
    """Episodes of one problem, cut by cut and devices apart; it keeps the shortest plan of all of them.

    Args:
        seen: the problem.
        reward: of a plan.
    """

    features, actions, layout = LAYOUT.size, LAYOUT.places, LAYOUT

    def __init__(self, seen: Coarse, reward: Reward = "root") -> None:
        self.seen, self.reward, self.best = seen, reward, Best()
        self.steps = 2 * (seen.pricing.problem.stages - 1)
        self.scale = scale_of(InferenceEpisodes([seen] * SCALED, None, reward), self.actions, 0)

    def episodes(self, number: int, count: int) -> InferenceEpisodes:
        """From the beginning; ``number`` does not matter."""
        return InferenceEpisodes([self.seen] * count, [self.best] * count, self.reward, [self.scale] * count)
