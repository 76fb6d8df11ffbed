"""Stages whose ends have other numbers of layers than those between them."""

import numpy as np

from dse.plan.evaluate import StageLoads, stage_loads
from dse.plan.plan_arrays import Floats, Integers
from dse.plan.problem import PlanProblem
from dse.plan.search.vocabulary import Rows, plans_of, with_chunk_counts, with_ends
from dse.plan.training_plan import CHOSEN_KEYS

BOUNDED_SCHEDULES = ("1f1b", "gpipe")
"""Of which the bound here holds: their bubbles are whole passes of all stages but the busiest one."""

_ROUNDING = 1e-9
_ANY_NUMBER = 1e6
"""Of layers, more than a model has."""


def uneven_families(problem: PlanProblem, rows: Rows, below_s: float) -> Rows:
    """Families with every number of layers of the first and the last stage that may take less than ``below_s``.

    A step takes at least (M − 1 / v) · C + ΣL / v with M microbatches, v chunks, C the load of the busiest stage and
    ΣL that of all: so C is limited, and with it the layers of each stage, since none takes less than the lightest one.
    """
    rows = with_chunk_counts(problem, rows)
    plans = plans_of(problem, rows)
    loads = stage_loads(problem, plans)
    rounds = -(-problem.global_batch // (plans.data * plans.microbatch)) - 1.0 / plans.interleave
    left = below_s * (1 + _ROUNDING) - loads.total / plans.interleave
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(left > 0, left / rounds, 0.0)
    may = np.flatnonzero((plans.pipeline > 1) & (limits * plans.pipeline >= loads.total))
    fixed = dict(problem.fixed)
    made = []
    for each in may:
        depth, chunks = int(plans.pipeline[each]), int(plans.interleave[each])
        first, last = _ends(problem.model.layers, depth, chunks, _max_layers(loads, limits, int(each)))
        if "interleave" not in fixed:
            even = _largest(problem.model.layers, depth, first, last) % chunks == 0
            first, last = first[even], last[even]
        made.append(with_ends(rows[each], first, last))
    ends = {key: value for key, value in fixed.items() if key in ("first_layers", "last_layers")}
    return _having(np.concatenate(made), ends) if made else rows[:0]


def _having(rows: Rows, fixed: dict[str, int]) -> Rows:
    for key, value in fixed.items():
        rows = rows[rows[:, CHOSEN_KEYS.index(key)] == value]
    return rows


def _max_layers(loads: StageLoads, limits_s: Floats, position: int) -> tuple[int, int, int]:
    """Layers that the first stage, the last one and each between may have at most."""
    limit_s, layer_s = float(limits_s[position]), float(loads.layer[position])
    ends = float(loads.embedding[position]), float(loads.head[position]), 0.0
    first, last, between = (max(0, int(min((limit_s - end) / layer_s * (1 + _ROUNDING), _ANY_NUMBER))) for end in ends)
    return first, last, between


def _largest(layers: int, depth: int, first: Integers, last: Integers) -> Integers:
    """Layers of the largest stage, [pairs]."""
    between = -(-(layers - first - last) // max(1, depth - 2))
    largest: Integers = np.maximum(np.maximum(first, last), between)
    return largest


def _ends(layers: int, depth: int, chunks: int, most: tuple[int, int, int]) -> tuple[Integers, Integers]:
    """Layers of the first and the last stage, [pairs] each, that leave those between as many as they may have."""
    first, last = np.meshgrid(
        np.arange(chunks, min(most[0], layers) + 1), np.arange(chunks, min(most[1], layers) + 1), indexing="ij"
    )
    rest, between = layers - first - last, depth - 2
    fits = (rest >= between * chunks) & (rest <= between * most[2])
    return first[fits], last[fits]
