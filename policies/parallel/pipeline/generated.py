"""Generated pipelines to learn from (paper, 4.5.1): arrays of random figures, and two families with the structure of
networks.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np

from dse.parallel.pipeline.problem import DeviceCutting, Floats, PipelineProblem, Profile
from policies.parallel.episodes import Episodes, Scale, scale_of
from policies.parallel.pipeline.inference import LAYOUT, Coarse, InferenceEpisodes, coarse
from policies.parallel.pipeline.machines import Machine
from policies.parallel.pipeline.online import SCALED

MIN_POINTS, MAX_POINTS = 128, 1024
"""Of a generated profile."""

Family = Literal["random", "blocks", "tapering"]
"""Of profiles: ``random`` is the paper's, ``blocks`` are like transformers, ``tapering`` like CNNs."""

FAMILIES: tuple[Family, ...] = get_args(Family)
OF_PAPER: tuple[Family, ...] = ("random",)

_POOL = 50
"""Environments at a time, and so interactions with each (paper, 3.5.3)."""


class _Figures(NamedTuple):
    """Of N points, in units of their own: computing, bytes sent by a cut in front of a point, weights; each [N]."""

    work: Floats
    sent: Floats
    weights: Floats


def generated(machine: Machine, seed: tuple[int, ...], family: Family = "random") -> PipelineProblem:
    """A problem whose figures are random.

    The paper generates arrays between 0 and 1. Here they also have a size, evenly by logarithm: activations at the
    largest cut take 10⁻⁴ to 1 of the time of the whole batch to send, and all gradients 10⁻³ to 3 of it to all-reduce;
    unless they are ``random``, activations at the median cut 10⁻⁴ to 3, and all gradients 10⁻³ to 20.
    """
    draw = np.random.default_rng(seed)
    points = int(np.exp(draw.uniform(np.log(MIN_POINTS), np.log(MAX_POINTS))))
    figures = {"random": _random, "blocks": _blocks, "tapering": _tapering}[family](draw, points)
    points = len(figures.work)
    joined, devices = machine.joined, machine.devices
    work = figures.work + 1e-9
    work_s = work / work.sum() * devices
    half = range(devices // 2 - 1, devices // 2)
    rates = (
        joined.stage_transfer_s(1e9, half, range(half.stop, half.stop + 1)),
        sum(ring.seconds(1e9) for ring in joined.all_reduce_rings(range(devices))),
    )
    sent_s, reduced_s = 10 ** draw.uniform((-4, -3), (0, 0.5) if family == "random" else (0.5, 1.3))
    usual = 1.0 if family == "random" else np.median(figures.sent)
    cut_bytes = np.concatenate(([0.0], figures.sent[1:] / usual, [0.0])) * sent_s / rates[0] * 1e9
    weights = figures.weights.copy()
    weights[draw.integers(points)] += 1e-3 * (weights.max() or 1.0)  # all may be 0
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


def _random(draw: np.random.Generator, points: int) -> _Figures:
    """Each array of one of three distributions: uniform, normal, or binomial with many zeros."""
    work, sent = (_figures(draw, count) for count in (points, points - 1))
    return _Figures(work, np.concatenate(([0.0], sent)), _figures(draw, points))


def _blocks(draw: np.random.Generator, points: int) -> _Figures:
    """One to three stacks of equal blocks, an embedding in front and a head behind.

    A block sends least at its beginning. What a stack has made may be read by all blocks behind it, as the encoder is.
    The embedding has weights and little computing; the head has a share of the computing, and may send much.
    """
    counts = draw.multinomial(points, draw.dirichlet(np.full(int(draw.integers(1, 4)), 3.0)))
    work, sent, weights = ([np.array([each])] for each in (0.0, 1.0, draw.lognormal(0, 1.5)))
    held = 0.0
    for count in counts.tolist():
        size = int(draw.integers(4, 24))
        repeats = max(1, count // size)
        own_work = draw.lognormal(0, 1, size)
        own_sent = 1 + draw.binomial(1, 0.6, size) * draw.lognormal(0, 1, size)
        own_sent[0] = 1.0
        own_weights = draw.binomial(1, 0.4, size) * draw.lognormal(0, 0.5, size)
        scales = draw.lognormal(0, 0.4, 3)
        work.append(np.tile(own_work / own_work.sum() * scales[0], repeats))
        sent.append(np.tile(own_sent * scales[1], repeats) + held)
        weights.append(np.tile((own_weights + 1e-6) / (own_weights + 1e-6).sum() * scales[2], repeats))
        held += scales[1] * draw.integers(2)
    head = int(draw.integers(1, 8))
    all_work = sum(float(each.sum()) for each in work)
    share = draw.uniform(0, 0.4)
    work.append(draw.dirichlet(np.ones(head)) * all_work * share / (1 - share))
    sent.append(np.concatenate(([1.0 + held], np.full(head - 1, 10 ** draw.uniform(0, 2)))))
    weights.append(np.concatenate(([draw.lognormal(0, 1.5)], np.zeros(head - 1))))
    return _Figures(*map(np.concatenate, (work, sent, weights)))


def _tapering(draw: np.random.Generator, points: int) -> _Figures:
    """Levels of layers: from each to the next activations shrink and weights grow; most weights may be at the end.

    A quarter of the points: such networks have fewer and larger operations.
    """
    points //= 4
    levels = int(draw.integers(3, 7))
    level = np.arange(points) * levels // points
    work = draw.lognormal(0, 0.7, points) * (1 + draw.uniform(-0.3, 0.3)) ** level
    sent = draw.lognormal(0, 0.3, points) * draw.uniform(1.5, 3) ** -level
    weights = draw.binomial(1, 0.4, points) * draw.lognormal(0, 0.5, points) * draw.uniform(2, 4) ** level
    last = int(draw.integers(1, 4)) * max(1, points // 100)
    work[-last:] *= draw.uniform(0.05, 1)
    sent[-last:] *= draw.uniform(0.05, 1)
    weights[-last:] = weights.sum() / last * draw.uniform(0, 10)
    return _Figures(work, sent, weights + 1e-9)


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
        families: of profiles, in turn.
        own_part, parts: it has the problems whose number leaves the remainder ``own_part`` when divided by ``parts``.
    """

    machines: tuple[Machine, ...]
    cutting: DeviceCutting
    seed: int
    families: tuple[Family, ...] = OF_PAPER
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
    turn, place = divmod(number, len(source.machines))
    machine, family = source.machines[place], source.families[turn % len(source.families)]
    seen = coarse(generated(machine, (source.seed, number), family), source.cutting, machine.lines)
    return seen, scale_of(InferenceEpisodes([seen] * SCALED), source.actions, number)
