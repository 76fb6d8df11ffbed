"""Bounds on every stage from bounds on pieces: a stage takes at least what its pieces between neighbouring cuts take.

A plan of a stage has a part in each of its pieces; what it sends between pieces is left out, and what several pieces
have counts in the first alone. So the least sums of passes and closing of the pieces add up to a bound on the stage,
and so do the fewest bytes. The first piece of a stage has everything that it takes, what stages in front have too.
Where neighbours are solved together, as a block, less is left out, so that a stage is divided into pieces and blocks
in the way that gives most. Pieces and blocks of equal structure are solved once.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dse.parallel.hybrid.frontier import DIRECTIONS
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.hybrid.stage_problem import Direction, StageProblem, min_bytes, min_forward_ps, solve_stage
from dse.parallel.hybrid.stage_step import StageStep
from dse.parallel.pipeline.problem import Floats
from dse.parallel.prices import Prices
from dse.run.progress import StopSignal


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
    flags = (step.in_memory, step.saved, step.again, step.copies)
    more = (step.arrives, step.entering, sorted(step.carried.items()), graph.results)
    return hashlib.sha256(repr((values, operations, arguments, times, flags, more)).encode()).hexdigest()


class Pieces:
    """The pieces of a step between neighbouring cuts.

    Args:
        problem: of the hybrid plan.
        seed: of the solver.
        stop: checked between pieces.
    """

    def __init__(self, problem: HybridProblem, seed: int, stop: StopSignal) -> None:
        self._problem, self._seed, self._stop = problem, seed, stop
        self._ends = (0, *problem.cuts, problem.steps.points)
        self._whole: dict[tuple[int, int], str] = {}
        self._firsts: dict[tuple[int, int], list[dict[Direction, int]]] = {}
        self._blocks: dict[tuple[int, int], dict[tuple[int, int], dict[Direction, int]]] = {}
        self._sums: dict[tuple[int, int], dict[Direction, Floats]] = {}
        self._bytes: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        self._forward: dict[tuple[int, int], Floats] = {}
        self.solved = 0

    @cached_property
    def _steps(self) -> list[StageStep]:
        return [self._problem.steps.stage(range(*each)) for each in pairwise(self._ends)]

    @cached_property
    def _signatures(self) -> list[str]:
        return [signature(each) for each in self._steps]

    @cached_property
    def _as_firsts(self) -> tuple[list[StageStep], list[str]]:
        """The pieces as the first of a stage, with their signatures."""
        steps = [each.as_first for each in self._steps]
        return steps, [signature(each) for each in steps]

    def bounds(self, width: int, mesh: int, begin: int, end: int) -> dict[Direction, float]:
        """On a stage of the pieces from ``begin`` up to ``end``, in picoseconds.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        self._solve_each(width, mesh)
        if (width, mesh) not in self._sums:
            blocks = self._blocks[width, mesh]
            self._sums[width, mesh] = {each: _most(len(self._steps), blocks, each) for each in DIRECTIONS}
        sums, first = self._sums[width, mesh], self._firsts[width, mesh][begin]
        return {
            each: float(max(sums[each][begin, end], first[each] + sums[each][begin + 1, end])) for each in DIRECTIONS
        }

    def passes_ps(self, width: int, mesh: int) -> list[int]:
        """What each piece takes at least of the passes of a batch, in whatever stage.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        self._solve_each(width, mesh)
        return [self._blocks[width, mesh][place, place + 1][1, 0] for place in range(len(self._steps))]

    def _solve_each(self, width: int, mesh: int) -> None:
        """Solve all pieces, and as the first of a stage."""
        if (width, mesh) in self._blocks:
            return
        known: dict[str, dict[Direction, int]] = {}
        ones = self._each(width, mesh, self._steps, self._signatures, known)
        self._blocks[width, mesh] = {(place, place + 1): of for place, of in enumerate(ones)}
        self._firsts[width, mesh] = self._each(width, mesh, *self._as_firsts, known)

    def forward_ps(self, width: int, mesh: int, begin: int, end: int) -> float:
        """The forward pass of a batch in such a stage takes no less.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        if (width, mesh) not in self._forward:
            known: dict[str, int] = {}
            for name, step in zip(self._signatures, self._steps, strict=True):
                if name not in known:
                    problem = _unlimited(self._problem.stage_problem(step, width, mesh, 1, is_piece=True))
                    known[name] = min_forward_ps(problem, Prices(problem), self._seed, self._stop)
                    self.solved += 1
            self._forward[width, mesh] = _prefix([known[name] for name in self._signatures])
        sums = self._forward[width, mesh]
        return float(sums[end] - sums[begin])

    def solve_block(self, width: int, mesh: int, begin: int, end: int, direction: Direction) -> bool:
        """Solve the pieces from ``begin`` up to ``end`` together, for all of equal structure; False where that is done.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        blocks = self._blocks[width, mesh]
        if direction in blocks.get((begin, end), {}):
            return False
        own, length = self._signatures[begin:end], end - begin
        alike = [
            (start, start + length)
            for start in range(len(self._steps) - length + 1)
            if self._signatures[start : start + length] == own
            and self._signature_of(start, start + length) == self._signature_of(begin, end)
        ]
        step = self._problem.steps.stage(range(self._ends[begin], self._ends[end]))
        bounds = self._solve(width, mesh, step, (direction,))
        for each in alike:
            blocks[each] = {**blocks.get(each, {}), **bounds}
        self._sums.pop((width, mesh), None)
        return True

    def _signature_of(self, begin: int, end: int) -> str:
        if (begin, end) not in self._whole:
            self._whole[begin, end] = signature(self._problem.steps.stage(range(self._ends[begin], self._ends[end])))
        return self._whole[begin, end]

    def min_bytes(self, width: int, mesh: int, begin: int, end: int, in_flight: int) -> float:
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
                known[name] = min_bytes(problem, Prices(problem))
        return _prefix([known[name] for name in self._signatures])

    def _each(
        self, width: int, mesh: int, steps: list[StageStep], names: list[str], known: dict[str, dict[Direction, int]]
    ) -> list[dict[Direction, int]]:
        """Bounds on each of the steps, by their signatures: each kind is solved once, and ``known`` from then on."""
        for name, step in zip(names, steps, strict=True):
            if name not in known:
                known[name] = self._solve(width, mesh, step, DIRECTIONS)
        return [known[name] for name in names]

    def _solve(self, width: int, mesh: int, step: StageStep, directions: tuple[Direction, ...]) -> dict[Direction, int]:
        problem = _unlimited(self._problem.stage_problem(step, width, mesh, 1, is_piece=True))
        prices = Prices(problem)
        self.solved += len(directions)
        return {
            direction: solve_stage(problem, prices, direction, self._seed, self._stop).bound_ps or 0
            for direction in directions
        }


def _unlimited(problem: StageProblem) -> StageProblem:
    return replace(problem, state_bytes=None)


def _most(count: int, blocks: Mapping[tuple[int, int], Mapping[Direction, int]], direction: Direction) -> Floats:
    """The most that divisions into pieces and blocks add up to, for every run of pieces, [begin, end]."""
    most = np.zeros((count + 1, count + 1))
    for begin, end in sorted(blocks, key=lambda each: each[1]):
        extended = most[: begin + 1, begin] + blocks[begin, end].get(direction, 0)
        most[: begin + 1, end] = np.maximum(most[: begin + 1, end], extended)
    return most


def _prefix(values: list[int]) -> Floats:
    return np.concatenate(([0.0], np.cumsum(np.array(values, dtype=np.float64))))
