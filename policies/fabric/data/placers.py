"""Who places what is labelled: annealers with random rules, and annealers that follow a student."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, get_args

import numpy as np

from dse.fabric.model import Pipeline, Placement
from dse.fabric.rules import RULES, RuleWeights
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.routing import Routing
from dse.fabric.search.student import Student
from hardware.fabrics import Fabric


@dataclass(frozen=True, eq=False)
class Placed:
    """A placement, and in JSON types how it came about."""

    placement: Placement
    placer: Mapping[str, Any]


class Placer(Protocol):
    """Places a pipeline, as a function of the seed alone; can be pickled for workers."""

    def __call__(self, pipeline: Pipeline, fabric: Fabric, seed: int) -> Placed:
        """A legal placement."""


_UNITS = 128
"""Compute and memory units of a fabric up to which annealings are as long as they are stated; longer on larger ones, in
proportion: a chain needs moves for each unit."""


def moves_on(fabric: Fabric, moves: int) -> int:
    """So many moves on a fabric of :data:`_UNITS` units, in proportion on a larger one."""
    units = sum(kind != "io" for kind in fabric.grid.site_kind)
    return moves * max(units, _UNITS) // _UNITS


@dataclass(frozen=True)
class RandomAnnealer:
    """Anneals from random sites under random weights of the rules, for random lengths at random temperatures.

    Attributes:
        max_moves: the longest annealing (:func:`moves_on`); lengths are log-uniform from 1 on.
    """

    max_moves: int = 30_000

    def __call__(self, pipeline: Pipeline, fabric: Fabric, seed: int) -> Placed:
        """The placement of a seed."""
        generator = np.random.default_rng(seed)
        weights, settings = random_weights(generator), random_settings(generator, moves_on(fabric, self.max_moves))
        annealed = Annealing(pipeline, fabric, weights, settings)(Chain(int(generator.integers(2**31))))
        return Placed(annealed.placement, {"weights": asdict(weights), **asdict(settings)})


def random_weights(generator: np.random.Generator) -> RuleWeights:
    """Each rule with a weight from 0.03 to 3, log-uniform, or without one; at least one has one."""
    weights = np.where(generator.random(len(RULES)) < 0.5, 10.0 ** generator.uniform(-1.5, 0.5, len(RULES)), 0.0)
    if not weights.any():
        weights[generator.integers(len(RULES))] = 1.0
    return RuleWeights(**dict(zip(RULES, weights.tolist(), strict=True)))


def random_settings(generator: np.random.Generator, max_moves: int) -> AnnealSettings:
    """Length, temperatures, reach and routing of an annealing."""
    routing: Routing = get_args(Routing)[generator.integers(len(get_args(Routing)))]
    return AnnealSettings(
        moves=int(np.exp(generator.uniform(0.0, np.log(max_moves)))),
        initial_temperature=float(10.0 ** generator.uniform(-1.0, 0.5)),
        final_temperature=float(10.0 ** generator.uniform(-4.0, -0.5)),
        final_reach=float(10.0 ** generator.uniform(-1.5, 0.0)),
        routing=routing,
    )


@dataclass(frozen=True)
class StudentAnnealer:
    """Anneals under rules that a student corrects, for random lengths at random temperatures: on-policy data.

    The student counts a tenth to ten times as much as it would in use; every other annealing has random rules instead
    of those in use, so that it also meets placements that these avoid.

    Attributes:
        student: that is followed.
        rules: in use.
        max_moves: the longest annealing (:func:`moves_on`); lengths are log-uniform from a hundredth of it on.
    """

    student: Student
    rules: RuleWeights
    max_moves: int = 60_000

    def __call__(self, pipeline: Pipeline, fabric: Fabric, seed: int) -> Placed:
        """The placement of a seed."""
        generator = np.random.default_rng(seed)
        rules = random_weights(generator) if generator.random() < 0.5 else self.rules
        # The student's weight goes with that of all rules together.
        share = self.student.weight * rules.array.sum() / self.rules.array.sum()
        weight = float(share * 10.0 ** generator.uniform(-1.0, 1.0))
        max_moves = moves_on(fabric, self.max_moves)
        settings = random_settings(generator, max_moves)
        settings = replace(settings, moves=int(max_moves * 10.0 ** generator.uniform(-2.0, 0.0)))
        student = replace(self.student, weight=weight)
        annealing = Annealing(pipeline, fabric, rules, settings, student=student)
        annealed = annealing(Chain(int(generator.integers(2**31))))
        return Placed(annealed.placement, {"weights": asdict(rules), "student": weight, **asdict(settings)})
