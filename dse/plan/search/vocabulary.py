"""Every plan of the vocabulary, in arrays.

The vocabulary is all plans that keep the rules (:mod:`dse.plan.rules`), use all devices, and whose ``interleave``
divides the layers of their largest stage, so that its chunks are equal. Of the orders of the axes it has the usual one
and the one with the pipeline inside of the replicas. Of what is left open, two kinds are not tried, as they are never
better:

- ``schedule`` GPipe takes as long as 1F1B and keeps at least as many microbatches;
- ``zero`` above 0 shares out nothing where those that would share are one rank.

Where ``zero`` above 0 or several ``zero_copies`` are fixed, what is open does not undo them: plans in which nothing is
shared out are in the vocabulary only if no plan that has what is fixed shares anything.

Plans are made in families: the members of one differ in what replicas share out (``zero`` and ``zero_copies``), and in
which modules are recomputed. Rows are numbers in the order of the chosen keys; a family's row recomputes none.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.plan.constraints import ALL_DEVICES, DIVIDING_BATCH
from dse.plan.plan_arrays import SCHEDULES, PlanArrays
from dse.plan.problem import PlanProblem, divisors
from dse.plan.recomputation import ALTERNATE, recompute_code
from dse.plan.rules import context_widths, expert_widths, pipeline_depths, ranks_inside, recomputations, tensor_widths
from dse.plan.stages import stage_layers
from dse.plan.training_plan import CHOSEN_KEYS, ORDERS, PIPELINE_INSIDE, ROUNDS, USUAL_ORDER

Rows = NDArray[np.int64]

_COLUMN = {key: column for column, key in enumerate(CHOSEN_KEYS)}
_MESH = [_COLUMN[key] for key in ("tensor", "context", "expert", "data")]
ALL_SHARED = (3, 1)
"""``zero`` and ``zero_copies`` of a family's row: of no member is more shared out."""

_FREE = frozenset(("interleave", "schedule", "zero", "recompute", "order", "first_layers", "last_layers"))


class _Mesh(NamedTuple):
    """Widths of the axes, and whether sequences are cut; in the order of the keys."""

    tensor: int
    sequence_parallel: bool
    context: int
    expert: int
    data: int
    pipeline: int


def families(problem: PlanProblem, size: int, min_devices: int = 1) -> Iterator[Rows]:
    """A row for each family that has what is fixed, ``size`` or somewhat more together.

    Where devices may be idle, those that use ``min_devices`` or more.
    """
    waiting: list[Rows] = []
    count = 0
    for rows in _family_rows(problem, min_devices):
        waiting.append(rows)
        count += len(rows)
        if count >= size:
            yield np.concatenate(waiting)
            waiting, count = [], 0
    if waiting:
        yield np.concatenate(waiting)


def tried_sets(problem: PlanProblem) -> list[int]:
    """Sets of modules, the empty one first, that the members of a family differ in; none where they do not."""
    if "recompute" in dict(problem.fixed):
        return []
    codes = [recompute_code(mode) for mode in recomputations(problem)]
    sets = sorted(code for code in codes if code < ALTERNATE)
    return sets if len(sets) > 1 and sets[0] == 0 else []


def with_sets(problem: PlanProblem, rows: Rows) -> Rows:
    """Families, once for each set of modules that is tried, family by family: then their members differ in none."""
    sets = tried_sets(problem)
    if not sets:
        return rows
    column = _COLUMN["recompute"]
    own = np.where(rows[:, column] == 0, len(sets), 1)
    each = np.repeat(rows, own, axis=0)
    within = np.arange(len(each)) - np.repeat(np.cumsum(own) - own, own)
    each[:, column] = np.where(each[:, column] == 0, np.array(sets)[within], each[:, column])
    return each


def with_all_modules(problem: PlanProblem, rows: Rows) -> Rows:
    """Families with the union of the sets that are tried, of which no member keeps less."""
    column = _COLUMN["recompute"]
    every = rows.copy()
    every[every[:, column] == 0, column] = np.bitwise_or.reduce([0, *tried_sets(problem)])
    return every


def has_sets(problem: PlanProblem, rows: Rows) -> NDArray[np.bool_]:
    """Which families have members that make other modules again."""
    has: NDArray[np.bool_] = (rows[:, _COLUMN["recompute"]] == 0) & bool(tried_sets(problem))
    return has


def members(problem: PlanProblem, rows: Rows) -> Rows:
    """All plans of families, family by family."""
    return with_sharing(problem, with_sets(problem, rows))


def with_sharing(problem: PlanProblem, rows: Rows) -> Rows:
    """Families with one set of modules each, once for each way of sharing out, family by family."""
    meshes, of_mesh = _meshes(rows)
    sharings = [np.array(_sharings(problem, *map(int, mesh)).choices, dtype=np.int64) for mesh in meshes]
    counts = np.array([len(each) for each in sharings])
    starts = np.cumsum(counts) - counts
    own = counts[of_mesh]
    plans = np.repeat(rows, own, axis=0)
    within = np.arange(len(plans)) - np.repeat(np.cumsum(own) - own, own)
    chosen = np.concatenate(sharings)[np.repeat(starts[of_mesh], own) + within]
    plans[:, [_COLUMN["zero"], _COLUMN["zero_copies"]]] = chosen
    return plans


def _meshes(rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """The meshes of families, [M, 4], and which of them each has, [R]. Most rows have that of the row before."""
    widths = rows[:, _MESH]
    starts = np.concatenate(([0], np.flatnonzero((widths[1:] != widths[:-1]).any(axis=1)) + 1))[: len(rows)]
    meshes, of_run = np.unique(widths[starts], axis=0, return_inverse=True)
    return meshes, np.repeat(of_run, np.diff(starts, append=len(rows)))


def sharing_counts(problem: PlanProblem, rows: Rows) -> NDArray[np.int64]:
    """Ways of sharing out that each family has."""
    meshes, of_mesh = _meshes(rows)
    counts = np.array([len(_sharings(problem, *map(int, mesh)).choices) for mesh in meshes], dtype=np.int64)
    chosen: NDArray[np.int64] = counts[of_mesh]
    return chosen


def member_counts(problem: PlanProblem, rows: Rows) -> NDArray[np.int64]:
    """Plans of each family."""
    sets = np.where(has_sets(problem, rows), len(tried_sets(problem)), 1)
    counts: NDArray[np.int64] = sharing_counts(problem, rows) * sets
    return counts


def all_plans(problem: PlanProblem) -> PlanArrays:
    """All plans of the vocabulary that have what is fixed."""
    rows = [members(problem, each) for each in families(problem, 1 << 16)]
    every = np.concatenate(rows) if rows else np.empty((0, len(CHOSEN_KEYS)), dtype=np.int64)
    return plans_of(problem, every)


def plans_of(problem: PlanProblem, rows: Rows) -> PlanArrays:
    """Rows as plans with the settings of the problem."""
    return PlanArrays.of_rows(rows, problem.precision, problem.settings)


def with_chunk_counts(problem: PlanProblem, rows: Rows) -> Rows:
    """Rows of one chunk a stage, once for each number of chunks that microbatches and layers allow.

    Rows as they are where that number is fixed.
    """
    if "interleave" in dict(problem.fixed):
        return rows
    single = rows[rows[:, _COLUMN["interleave"]] == 1]
    data, size, depth = (single[:, _COLUMN[key]] for key in ("data", "microbatch", "pipeline"))
    rounds = -(-problem.global_batch // (data * size))
    may = (depth > 1) & (rounds % depth == 0) & (single[:, _COLUMN["schedule"]] == SCHEDULES.index("1f1b"))
    counts = np.where(may, problem.model.layers // depth, 1)
    every = np.repeat(single, counts, axis=0)
    every[:, _COLUMN["interleave"]] = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    return every


def with_ends(row: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]) -> Rows:
    """A row once for each number of layers of the first and the last stage."""
    rows = np.repeat(row[None], len(first), axis=0)
    rows[:, _COLUMN["first_layers"]], rows[:, _COLUMN["last_layers"]] = first, last
    return rows


def _family_rows(problem: PlanProblem, min_devices: int) -> Iterator[Rows]:
    fixed = dict(problem.fixed)
    modes, share_nothing, is_empty = _modes(problem, fixed), [], True
    for mesh in _all_meshes(problem, fixed, min_devices):
        sharings = _sharings(problem, mesh.tensor, mesh.context, mesh.expert, mesh.data)
        if sharings.undone:
            share_nothing.append(mesh)
        elif sharings.choices:
            for rows in _of_mesh(problem, fixed, modes, mesh):
                is_empty = False
                yield rows
    for mesh in share_nothing if is_empty else ():
        yield from _of_mesh(problem, fixed, modes, mesh)


def _all_meshes(problem: PlanProblem, fixed: dict[str, Any], min_devices: int) -> Iterator[_Mesh]:
    for tensor, context, depth in product(
        _open(fixed, "tensor", tensor_widths(problem)),
        _open(fixed, "context", context_widths(problem)),
        _open(fixed, "pipeline", pipeline_depths(problem)),
    ):
        for data in _open(fixed, "data", _replicas(problem, tensor * context * depth, min_devices)):
            for cut in _sequence_cuts(problem, fixed, tensor, context):
                for expert in _open(fixed, "expert", expert_widths(problem, tensor * context * data)):
                    yield _Mesh(tensor, cut, context, expert, data, depth)


def _replicas(problem: PlanProblem, ranks: int, min_devices: int) -> list[int]:
    """Numbers of replicas of so many ranks: one that uses all devices, or any that use ``min_devices`` or more."""
    widths = divisors(problem.devices if problem.relaxed == DIVIDING_BATCH else problem.global_batch)
    if problem.relaxed == ALL_DEVICES:
        return [data for data in widths if min_devices <= ranks * data <= problem.devices]
    return [data for data in widths if ranks * data == problem.devices]


def _modes(problem: PlanProblem, fixed: dict[str, Any]) -> list[int]:
    """What families have for recomputation: of the sets that are tried, the empty one."""
    others = tried_sets(problem)[1:]
    modes = [recompute_code(mode) for mode in _open(fixed, "recompute", recomputations(problem))]
    return [mode for mode in modes if mode not in others]


def _of_mesh(problem: PlanProblem, fixed: dict[str, Any], modes: list[int], mesh: _Mesh) -> Iterator[Rows]:
    schedules = [SCHEDULES.index(each) for each in _open(fixed, "schedule", ["1f1b"])]
    orders = [ORDERS.index(each) for each in _orders(fixed, mesh)]
    sizes = _open(fixed, "microbatch", _microbatches(problem, mesh.data))
    padded = problem.relaxed == DIVIDING_BATCH
    first, last = fixed.get("first_layers", 0), fixed.get("last_layers", 0)
    counts = _chunk_counts(problem.model.layers, mesh.pipeline, first, last)
    for chunks, schedule in product(_open(fixed, "interleave", counts), schedules):
        if chunks * mesh.pipeline > problem.model.layers or (mesh.pipeline == 1 and (chunks > 1 or schedule)):
            continue
        if chunks > 1 and SCHEDULES[schedule] != "1f1b":
            continue
        if SCHEDULES[schedule] == "dualpipe" and mesh.pipeline % 2:
            continue
        if not _ends_fit(problem.model.layers, mesh.pipeline, chunks, first, last):
            continue
        each, divisor = ROUNDS.get(SCHEDULES[schedule], (0, 1))
        fitting = [
            size
            for size in sizes
            if (rounds := -(-problem.global_batch // (mesh.data * size))) >= each * mesh.pipeline
            and rounds % divisor == 0
            and (padded or problem.global_batch % (mesh.data * size) == 0)
            and (chunks == 1 or rounds % mesh.pipeline == 0)
        ]
        zero, copies = ALL_SHARED
        rows = [
            (*mesh, chunks, schedule, zero, size, mode, copies, order, first, last)
            for order in orders
            for size in fitting
            for mode in modes
        ]
        if rows:
            yield np.array(rows, dtype=np.int64)


def _orders(fixed: dict[str, Any], mesh: _Mesh) -> list[str]:
    """Orders in which the experts' ranks follow each other; one of those that are equivalent."""
    alike = mesh.pipeline == 1 or mesh.data == 1
    orders = _open(fixed, "order", [USUAL_ORDER] if alike else [USUAL_ORDER, PIPELINE_INSIDE])
    return [order for order in orders if ranks_inside(order, mesh._asdict()) % mesh.expert == 0]


def _ends_fit(layers: int, depth: int, chunks: int, first: int, last: int) -> bool:
    given = [count for count in (first, last) if count]
    others = depth - len(given)
    if not given:
        return True
    rest = layers - sum(given)
    fits = rest >= others * chunks if others > 0 else rest == 0
    return depth > 1 and min(given) >= chunks and fits


class _Sharings(NamedTuple):
    """ZeRO stages and copies of what they share out, the stages in their order.

    ``undone`` where a stage above 0 is requested, or several copies, and no choice shares anything out.
    """

    choices: tuple[tuple[int, int], ...]
    undone: bool


def _sharings(problem: PlanProblem, tensor: int, context: int, expert: int, data: int) -> _Sharings:
    """Of a mesh."""
    fixed = dict(problem.fixed)
    ranks = tensor * context * data // expert if problem.model.experts is not None else 0
    return _stages_and_copies(context, data, ranks, fixed.get("zero"), fixed.get("zero_copies"))


@cache
def _stages_and_copies(context: int, data: int, expert_ranks: int, zero: int | None, copies: int | None) -> _Sharings:
    """As :func:`_sharings`; ``expert_ranks`` hold the same experts (0 without any)."""
    counts = [each for each in divisors(data) if expert_ranks % each == 0 and copies in (None, each)]
    stages = range(4) if zero is None else [zero]
    every = tuple((stage, each) for stage in stages for each in counts if stage > 0 or each == 1)
    useful = tuple((stage, each) for stage, each in every if stage == 0 or context * data > each or expert_ranks > each)
    return _Sharings(useful or every, bool(every) and not useful)


def _chunk_counts(layers: int, depth: int, first: int, last: int) -> list[int]:
    """Numbers of chunks where they are open: those that divide the layers of the largest stage."""
    if depth == 1:
        return [1]
    largest = max(stage_layers(layers, depth, first, last))
    return [chunks for chunks in divisors(largest) if chunks * depth <= layers]


def _microbatches(problem: PlanProblem, data: int) -> list[int]:
    """Sizes of microbatches: those that divide a replica's samples, or, where they need not, all that may be the best.

    Of the sizes with one number of microbatches the smallest takes no longer than the others.
    """
    samples = -(-problem.global_batch // data)
    if problem.relaxed != DIVIDING_BATCH:
        return divisors(samples)
    return sorted({-(-samples // rounds) for rounds in range(1, samples + 1)})


def _sequence_cuts(problem: PlanProblem, fixed: dict[str, Any], tensor: int, context: int) -> list[bool]:
    cuts = [False] if tensor == 1 else [True] if problem.model.experts is not None else [False, True]
    if problem.sequence % (tensor * context):
        cuts = [cut for cut in cuts if not cut]
    asked = fixed.get("sequence_parallel")
    return cuts if asked is None else [cut for cut in cuts if cut == asked]


def _open(fixed: dict[str, Any], key: str, vocabulary: list[Any]) -> list[Any]:
    """What a key may have: its fixed value if that is legal, or everything.

    Values outside the vocabulary are legal if they are fixed.
    """
    if key not in fixed:
        return vocabulary
    value = fixed[key]
    return [value] if key in _FREE or value in vocabulary else []
