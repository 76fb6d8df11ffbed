"""Generated pipelines to learn from (paper, 4.5.1): arrays of random figures, of one of three distributions each."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dse.parallel.pipeline.problem import DeviceCutting, Floats, PipelineProblem, Profile
from policies.parallel.episodes import Episodes, Scale, scale_of
from policies.parallel.pipeline.inference import LAYOUT, Coarse, InferenceEpisodes, coarse
from policies.parallel.pipeline.machines import Machine
from policies.parallel.pipeline.online import SCALED

MIN_POINTS, MAX_POINTS = 128, 1024
"""Of a generated profile."""

_POOL = 50
"""Environments at a time, and so interactions with each (paper, 3.5.3)."""


def generated(machine: Machine, seed: tuple[int, ...]) -> PipelineProblem:
    """A problem whose figures are random: uniform, normal, or binomial with many zeros.

    The paper generates arrays between 0 and 1. Here they also have a size: the activations of a cut take 10⁻⁴ to 1 of
    the time of the whole batch to send, and all gradients 10⁻³ to 3 of it to all-reduce, evenly by logarithm.
    """
    draw = np.random.default_rng(seed)
    points = int(np.exp(draw.uniform(np.log(MIN_POINTS), np.log(MAX_POINTS))))
    joined, devices = machine.joined, machine.devices
    work = _figures(draw, points) + 1e-9
    work_s = work / work.sum() * devices
    half = range(devices // 2 - 1, devices // 2)
    rates = (
        joined.stage_transfer_s(1e9, half, range(half.stop, half.stop + 1)),
        sum(ring.seconds(1e9) for ring in joined.all_reduce_rings(range(devices))),
    )
    sent_s, reduced_s = 10 ** draw.uniform((-4, -3), (0, 0.5))
    cut_bytes = np.concatenate(([0.0], _figures(draw, points - 1), [0.0])) * sent_s / rates[0] * 1e9
    weights = _figures(draw, points)
    weights[draw.integers(points)] += 1e-3
    weights *= reduced_s / rates[1] * 1e9 / weights.sum()
    profile = Profile(
        forward_s=work_s / 3,
        backward_s=work_s * 2 / 3,
        cut_bytes=cut_bytes.astype(np.int64),
        weight_bytes=weights.astype(np.int64),
        variables=np.ones(points, dtype=np.int64),
        stash_bytes=np.zeros(points, dtype=np.int64),
    )
    return PipelineProblem(profile, joined, devices, machine.stages, machine.microbatches)


def _figures(draw: np.random.Generator, count: int) -> Floats:
    """Between 0 and 1, [count]."""
    match draw.integers(3):
        case 0:
            return draw.uniform(0, 1, count)
        case 1:
            return np.clip(draw.normal(0.5, draw.uniform(0.05, 0.3), count), 0, 1)
        case _:
            trials = int(draw.integers(1, 10))
            return draw.binomial(trials, draw.uniform(0.05, 0.6), count) / trials


@dataclass(frozen=True)
class GeneratedSource:
    """An endless stream of generated problems; each is met in as many rounds as there are problems in a round.

    A round has one episode of each of 50 problems, and in every round the oldest of them makes room for a new one; so
    the replay holds steps of many problems, though each is met 50 times, as in the paper.

    Attributes:
        machines: in turn.
        cutting: which device cuts are allowed.
        seed: of all problems.
        own_part, parts: it has the problems whose number leaves the remainder ``own_part`` when divided by ``parts``.
    """

    machines: tuple[Machine, ...]
    cutting: DeviceCutting
    seed: int
    own_part: int = 0
    parts: int = 1

    features = LAYOUT.size
    actions = LAYOUT.places

    @property
    def steps(self) -> int:
        """Two for each cut."""
        return 2 * (max(machine.stages for machine in self.machines) - 1)

    def part(self, part: int, parts: int) -> "GeneratedSource":
        """A problem belongs to the same part in all rounds in which it is met, so that one runner makes it, once."""
        return replace(self, own_part=part, parts=parts)

    def episodes(self, number: int, count: int) -> Episodes:
        """One episode of each of ``count`` problems, from number ``number`` on, at most those that it has."""
        places = [place for place in range(number, number + count) if place % self.parts == self.own_part]
        problems, scales = zip(*(_problem(self, place) for place in places), strict=True)
        return InferenceEpisodes(problems, scales=scales)


@lru_cache(maxsize=4 * _POOL)
def _problem(source: GeneratedSource, number: int) -> tuple[Coarse, Scale]:
    machine = source.machines[number % len(source.machines)]
    seen = coarse(generated(machine, (source.seed, number)), source.cutting, machine.lines)
    return seen, scale_of(InferenceEpisodes([seen] * SCALED), source.actions, number)
