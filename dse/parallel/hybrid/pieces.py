"""Bounds on every stage from bounds on pieces: a stage takes at least what its pieces between neighbouring cuts take.

A plan of a stage has a part in each of its pieces; what it sends between pieces is left out, and what several pieces
have counts in the first alone. So the least sums of passes and closing of the pieces add up to a bound on the stage,
and so do the fewest bytes. Where :data:`BLOCK` neighbours are solved together, less is left out, so that a stage is
divided into pieces and blocks in the way that gives most. Pieces and blocks of equal structure are solved once.
"""

import hashlib
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dse.parallel.hybrid.frontier import DIRECTIONS, SOLVED
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.hybrid.stage_problem import Direction, StageProblem, least_bytes, solve_stage
from dse.parallel.hybrid.stage_step import StageStep
from dse.parallel.pipeline.problem import Floats
from dse.parallel.prices import Prices
from dse.run.progress import StopSignal

BLOCK = 3
"""Neighbouring pieces that are solved together."""


def signature(step: StageStep) -> str:
    """The same for steps that differ in names alone."""
    graph = step.graph
    values = [(each.dims, each.dtype, each.size_bytes, each.constant) for each in graph.values]
    operations = [
        (each.opcode, each.operands, each.results, sorted(each.attributes.items(), key=str), each.repeats)
        for each in graph.operations
    ]
    arguments = [(each.value, each.role) for each in graph.arguments]
    times = (step.of_batch, step.once, step.divided, step.runs_once, step.summed, step.forward)
    flags = (step.in_memory, step.kept, step.again, step.copies)
    more = (step.arrives, step.entering, sorted(step.carried.items()), graph.results)
    return hashlib.sha256(repr((values, operations, arguments, times, flags, more)).encode()).hexdigest()


class Pieces:
    """The pieces of a step between neighbouring cuts.

    Args:
        problem: of the hybrid plan.
        seed: of the solver.
        stop: asked between pieces.
    """

    def __init__(self, problem: HybridProblem, seed: int, stop: StopSignal) -> None:
        self._problem, self._seed, self._stop = problem, seed, stop
        ends = (0, *problem.cuts, problem.steps.points)
        self._steps = [problem.steps.stage(range(*each)) for each in pairwise(ends)]
        self._signatures = [signature(each) for each in self._steps]
        blocks = zip(ends, ends[BLOCK:], strict=False)
        self._blocks = [problem.steps.stage(range(*each)) for each in blocks]
        self._block_signatures = [signature(each) for each in self._blocks]
        self._sums: dict[tuple[int, int], dict[Direction, Floats]] = {}
        self._bytes: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        self.solved = 0

    def bounds(self, width: int, mesh: int, begin: int, end: int) -> dict[Direction, float]:
        """On a stage of the pieces from ``begin`` up to ``end``, in picoseconds.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        if (width, mesh) not in self._sums:
            self._sums[width, mesh] = self._solved(width, mesh)
        sums = self._sums[width, mesh]
        return {direction: float(sums[direction][begin, end]) for direction in DIRECTIONS}

    def least_bytes(self, width: int, mesh: int, begin: int, end: int, in_flight: int) -> float:
        """What each device of such a stage keeps at least."""
        if (width, mesh) not in self._bytes:
            one, two = (self._of_all(width, mesh, in_flight) for in_flight in (1, 2))
            self._bytes[width, mesh] = 2 * one - two, two - one
        fixed, each = self._bytes[width, mesh]
        return float(fixed[end] - fixed[begin] + in_flight * (each[end] - each[begin]))

    def _of_all(self, width: int, mesh: int, in_flight: int) -> Floats:
        known: dict[str, int] = {}
        for name, step in zip(self._signatures, self._steps, strict=True):
            if name not in known:
                problem = self._problem.stage_problem(step, width, mesh, in_flight, is_piece=True)
                known[name] = least_bytes(problem, Prices(problem))
        return _prefix([known[name] for name in self._signatures])

    def _solved(self, width: int, mesh: int) -> dict[Direction, Floats]:
        """The most that pieces and blocks add up to, [first piece, last piece + 1], in each direction."""
        ones = self._each(width, mesh, self._steps, self._signatures, DIRECTIONS)
        blocks = self._each(width, mesh, self._blocks, self._block_signatures, SOLVED)
        return {
            direction: _most([each[direction] for each in ones], [each.get(direction, 0) for each in blocks])
            for direction in DIRECTIONS
        }

    def _each(
        self, width: int, mesh: int, steps: list[StageStep], signatures: list[str], directions: tuple[Direction, ...]
    ) -> list[dict[Direction, int]]:
        """Bounds on each of the steps, each kind solved once."""
        known: dict[str, dict[Direction, int]] = {}
        for name, step in zip(signatures, steps, strict=True):
            if name not in known:
                problem = _unlimited(self._problem.stage_problem(step, width, mesh, 1, is_piece=True))
                prices = Prices(problem)
                known[name] = {
                    direction: solve_stage(problem, prices, direction, self._seed, self._stop).bound_ps or 0
                    for direction in directions
                }
                self.solved += len(directions)
        return [known[name] for name in signatures]


def _unlimited(problem: StageProblem) -> StageProblem:
    return replace(problem, state_bytes=None)


def _most(ones: list[int], blocks: list[int]) -> Floats:
    """The most that divisions into single pieces and blocks add up to, for every run of pieces."""
    count = len(ones)
    most = np.zeros((count + 1, count + 1))
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            most[begin, end] = most[begin, end - 1] + ones[end - 1]
            if end - begin >= BLOCK:
                together = most[begin, end - BLOCK] + blocks[end - BLOCK]
                most[begin, end] = max(most[begin, end], together)
    return most


def _prefix(values: list[int]) -> Floats:
    return np.concatenate(([0.0], np.cumsum(np.array(values, dtype=np.float64))))
