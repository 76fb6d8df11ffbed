"""Why a graph does not fit the memory of a package: what can be proven before a search, and what can be said after one.

Proven, for weights that are held (resident), each by a condition that every valid partition meets:

- an operator alone holds no more than a chip;
- all operators hold no more than the chips that the constraints let a partition use
  (:class:`dse.partition.constraints.structure.Structure`, ``max_chip``);
- no two of the operators that hold more than half of a chip share one, so there are no more of them than such chips;
- the ends of an edge and all operators on paths between them, which (4) keeps on the two chips of the ends, hold no
  more than two chips.

For small graphs CP-SAT proves what remains (:mod:`dse.partition.constraints.model`). Under the simulator an operator
needs its weights, its inputs and its output at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dse.partition.constraints.model import has_no_partition
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.constraints.structure import Structure, structure_of
from dse.partition.evaluators.simulator import Overflow, SimulatorEvaluator
from dse.partition.formats import MisfitDocument
from dse.partition.options import EvaluatorName, Question
from dse.partition.problem import Chips, Floats, PartitionProblem

_SHOWN = 5
"""Operators that a sentence names."""

_SAMPLES = 200
"""Partitions among which the one that comes nearest to fitting is sought."""

_MAX_CLAUSES = 300_000
"""Edges × pairs of chips of a CP-SAT model that is worth its seconds."""

_PROOF_TIME = 5.0
"""CP-SAT's deterministic seconds for a proof that nothing fits."""


def impossible(question: Question, evaluator: EvaluatorName) -> dict[str, Any] | None:
    """The ``infeasibility`` of a result, where a simple condition is broken; None otherwise."""
    proof = _held(question.problem)
    if proof is None and evaluator == "simulator":
        proof = _never_running(question)
    return proof


def _held(problem: PartitionProblem) -> dict[str, Any] | None:
    if problem.memory_bytes is None:
        return None
    structure = structure_of(problem.graph)
    usable = min(problem.chips, int(structure.max_chip.max(initial=0)) + 1)
    limit = problem.memory_limit_bytes
    return (
        _single(problem, limit)
        or _total(problem, limit, usable)
        or _halves(problem, limit, usable)
        or _confined(problem, limit, structure)
    )


def _single(problem: PartitionProblem, limit: float) -> dict[str, Any] | None:
    weights = problem.graph.weight_bytes
    large = _heaviest(weights, np.flatnonzero(weights > limit))
    if not large:
        return None
    need = float(weights[large[0]])
    text = f"a chip has {_size(problem.memory_bytes)}, but {_named(problem, large)} {_needs(large)} more"
    return _infeasibility(problem, large, need, text, f"chips of at least {_size(need)}")


def _total(problem: PartitionProblem, limit: float, usable: int) -> dict[str, Any] | None:
    weights = problem.graph.weight_bytes
    total = float(weights.sum())
    if total <= limit * usable:
        return None
    room = f"{usable} chips of {_size(problem.memory_bytes)} have {_size(usable * (problem.memory_bytes or 0.0))}"
    if usable < problem.chips:
        room = f"the graph can use {usable} of {problem.chips} chips, and {room}"
    large = _heaviest(weights)
    text = f"the weights total {_size(total)}, but {room}; largest: {_named(problem, large)}"
    lever = "more chips, or chips of at least" if usable == problem.chips else "chips of at least"
    return _infeasibility(problem, large[:_SHOWN], total, text, f"{lever} {_size(total / usable)}", usable)


def _halves(problem: PartitionProblem, limit: float, usable: int) -> dict[str, Any] | None:
    weights = problem.graph.weight_bytes
    large = _heaviest(weights, np.flatnonzero(weights > limit / 2))
    if len(large) <= usable:
        return None
    text = (
        f"{len(large)} operators each need more than half of a chip ({_size(problem.memory_bytes)}), so no two can "
        f"share a chip, but only {usable} chips can be used: {_named(problem, large)}"
    )
    need = float(weights[large[usable - 1]] + weights[large[usable]])
    return _infeasibility(problem, large, need, text, f"chips of at least {_size(need)}")


def _confined(problem: PartitionProblem, limit: float, structure: Structure) -> dict[str, Any] | None:
    weights = problem.graph.weight_bytes
    source, target = problem.graph.edges.T
    edge = np.repeat(np.arange(len(source)), np.diff(structure.between_first))
    between = np.bincount(edge, weights=weights[structure.between_node], minlength=len(source))
    held = between + weights[source] + weights[target]
    if not len(held) or held.max() <= 2 * limit:
        return None
    worst = int(np.argmax(held))
    inside = structure.between_node[structure.between_first[worst] : structure.between_first[worst + 1]]
    large = _heaviest(weights, np.sort([source[worst], target[worst], *inside]))
    names = problem.graph.labels
    text = (
        f"{names[source[worst]]} feeds {names[target[worst]]} directly, so all {len(inside)} operators on paths "
        f"between them must be on their two chips (4); together they need {_size(float(held[worst]))}, but two "
        f"chips have {_size(2 * (problem.memory_bytes or 0.0))}; largest: {_named(problem, large)}"
    )
    copied = f"a copy of {names[source[worst]]} for {names[target[worst]]}"
    lever = f"chips of at least {_size(float(held[worst]) / 2)}, or {copied}"
    return _infeasibility(problem, large, float(held[worst]), text, lever, 2)


def _never_running(question: Question) -> dict[str, Any] | None:
    assert question.package is not None
    problem, limit = question.problem, question.package.sram_bytes
    operators = SimulatorEvaluator(problem, question.package).never_fitting()
    if not operators:
        return None
    shown = ", ".join(f"{name} ({_size(size)})" for name, size in operators[:_SHOWN])
    shown += f" and {len(operators) - _SHOWN} more" if len(operators) > _SHOWN else ""
    verb = "needs" if len(operators) == 1 else "need"
    return {
        "resource": "memory",
        "operators": [name for name, _ in operators],
        "demand": operators[0][1],
        "limit": limit,
        "unit": "bytes",
        "explanation": f"a chip has {_size(limit)}, but {shown} {verb} more for weights, inputs and output; use "
        f"chips of at least {_size(operators[0][1])}, or smaller inputs",
    }


def proven_by_model(problem: PartitionProblem) -> dict[str, Any] | None:
    """What CP-SAT proves for a small graph: that no valid partition has its weights in memory; None otherwise."""
    pairs = problem.chips * (problem.chips - 1) // 2
    if problem.memory_bytes is None or len(problem.graph.edges) * pairs > _MAX_CLAUSES:
        return None
    if not has_no_partition(problem, _PROOF_TIME):
        return None
    large = _heaviest(problem.graph.weight_bytes)
    total = float(problem.graph.weight_bytes.sum())
    text = (
        f"weights of {_size(total)} would fit on {problem.chips} chips of {_size(problem.memory_bytes)}, but no "
        "partition "
        f"that satisfies (2) to (4) puts at most {_size(problem.memory_bytes)} on each (proven with CP-SAT); "
        f"largest: {_named(problem, large)}"
    )
    return _infeasibility(problem, large[:_SHOWN], total, text, "larger chips", problem.chips)


def nearest(question: Question, evaluator: EvaluatorName, seed: int) -> tuple[Chips, Floats]:
    """Partitions by how much the fullest chip needs, the least first: [B, N], bytes over its memory [B].

    Drawn at random, and balanced by what operators hold along a topological order.
    """
    problem = question.problem
    sampler = Sampler(problem.graph, problem.chips)
    chips = np.concatenate([_balanced(problem, sampler, seed), sampler.sample(seeds_of(seed, 1, _SAMPLES))])
    excess = np.zeros(len(chips))
    if problem.memory_bytes is not None:
        held = np.array([(chips == number) @ problem.graph.weight_bytes for number in range(problem.chips)])
        excess = held.max(axis=0) - problem.memory_limit_bytes
    if evaluator == "simulator":
        assert question.package is not None
        peaks = SimulatorEvaluator(problem, question.package).peak_bytes(chips)
        excess = np.maximum(excess, peaks - question.package.sram_bytes)
    order = np.argsort(excess, kind="stable")
    return chips[order], excess[order]


def _balanced(problem: PartitionProblem, sampler: Sampler, seed: int) -> Chips:
    """For every number of chips, equal shares of the weights, and of weights and outputs, made valid by FIX."""
    graph, order = problem.graph, problem.graph.topological_order
    candidates = []
    for amounts in (graph.weight_bytes, graph.weight_bytes + graph.output_bytes):
        middle = np.zeros(len(graph))
        middle[order] = np.cumsum(amounts[order]) - amounts[order] / 2
        for chips in range(1, problem.chips + 1):
            share = max(float(amounts.sum()) / chips, np.finfo(float).tiny)
            candidates.append(np.minimum(middle / share, chips - 1).astype(np.int64))
    return sampler.closest(np.array(candidates), seeds_of(seed, 0, len(candidates)), orders=order[None])


def misfit(question: Question, evaluator: EvaluatorName, chip: Sequence[int]) -> MisfitDocument:
    """What the fullest chip of a partition that does not fit lacks, and which operators need most on it."""
    problem, where = question.problem, np.asarray(chip)
    overflow = _worst_overflow(question, chip) if evaluator == "simulator" else None
    sizes = problem.graph.weight_bytes + (0.0 if overflow is None else problem.graph.output_bytes)
    if overflow is not None:
        number, needed, limit, text = overflow.chip, overflow.needed_bytes, overflow.limit_bytes, str(overflow)
    else:
        held = np.bincount(where, weights=problem.graph.weight_bytes)
        number, limit = int(np.argmax(held)), float(problem.memory_bytes or 0.0)
        needed = float(held[number])
        text = f"(5) chip {number} has {_size(limit)}, but its weights need {_size(needed)}"
    large = _heaviest(sizes, np.flatnonzero(where == number))[:_SHOWN]
    what = "weights" if overflow is None else "weights and outputs"
    names = ", ".join(f"{problem.graph.labels[position]} ({_size(float(sizes[position]))})" for position in large)
    return MisfitDocument(
        chip=number,
        needed_bytes=needed,
        limit_bytes=limit,
        operators=[(problem.graph.labels[position], float(sizes[position])) for position in large],
        explanation=f"{text}; its largest {what}: {names}",
    )


def _worst_overflow(question: Question, chip: Sequence[int]) -> Overflow | None:
    assert question.package is not None
    overflows = SimulatorEvaluator(question.problem, question.package).overflows(chip)
    return max(overflows, key=lambda each: each.needed_bytes, default=None)


def _heaviest(sizes: Floats, among: Any = None) -> list[int]:
    """Positions with a size, the largest first."""
    positions = np.arange(len(sizes)) if among is None else np.asarray(among, dtype=np.int64)
    order = positions[np.argsort(-sizes[positions], kind="stable")]
    return [int(position) for position in order if sizes[position] > 0]


def _named(problem: PartitionProblem, positions: Sequence[int]) -> str:
    names = problem.graph.labels
    shown = [f"{names[place]} ({_size(float(problem.graph.weight_bytes[place]))})" for place in positions[:_SHOWN]]
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return ", ".join(shown) + more


def _needs(positions: Sequence[int]) -> str:
    return "needs" if len(positions) == 1 else "need"


def _infeasibility(
    problem: PartitionProblem, operators: Sequence[int], demand: float, text: str, lever: str, chips: int = 1
) -> dict[str, Any]:
    assert problem.memory_bytes is not None
    return {
        "resource": "memory",
        "operators": [problem.graph.labels[position] for position in operators],
        "demand": demand,
        "limit": problem.memory_bytes * chips,
        "unit": "bytes",
        "explanation": f"{text}; use {lever}, or streamed weights",
    }


def _size(size_bytes: float | None) -> str:
    """Bytes for people, in the unit that gives at least one digit before the point."""
    size = size_bytes or 0.0
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.4g} {unit}"
    return f"{size:,.4g} bytes"
