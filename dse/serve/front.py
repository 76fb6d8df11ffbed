"""The Pareto front of this field: output tokens a second for each accelerator, over those for each user.

Load is free: a point is a replica whose ranks are as full as its batch says, without any that wait. Of workers apart it
is as many decode workers as prefill workers keep full. Of the points that fit, those stay that no other beats in both.
"""

from typing import Any

import numpy as np

from dse.serve.closed_form import piped, room, tables_of
from dse.serve.disaggregated_front import front_apart
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, SplitPlan
from dse.serve.steady_state import steady_state
from dse.serve.vocabulary import LARGEST_BATCH, cells, chunks

_USUAL_CHUNK = 8192


def front(problem: ServeProblem) -> list[dict[str, Any]]:
    """Its points in JSON types, from the fastest for a user to the cheapest for a token."""
    points: list[tuple[float, float, Plan]] = front_apart(problem)
    output = problem.load.output.mean
    for cell in cells(problem.opened()):
        pipeline, chips = cell.shape.pipeline, cell.shape.chips
        batch = pipeline * np.array([1 << power for power in range(LARGEST_BATCH.bit_length())])
        allowed = [chunks(problem, cell, int(each) // pipeline) for each in batch]
        chunk = np.array([min(each, key=lambda size: abs(size - _USUAL_CHUNK)) for each in allowed], dtype=np.int64)
        memory = room(problem, cell, batch, chunk)
        rows = np.flatnonzero(memory.fits & (memory.requests >= batch))
        if not len(rows):
            continue
        together = (batch[rows] // pipeline).astype(np.float64)
        state = steady_state(
            tables_of(problem, cell), piped(cell.engine, pipeline), problem.load, together, together,
            chunk[rows].astype(np.float64), cell.shape.attention_data * pipeline,
        )  # fmt: skip
        whole = cell.shape.attention_data * pipeline * together * output / state.latency_s / chips
        points += [
            (1.0 / float(tpot), float(tokens), cell.plan(1, int(batch[row]), int(chunk[row])))
            for tpot, tokens, row in zip(state.tpot_s, whole, rows, strict=True)
        ]
    return [_document(*each) for each in _undominated(points)]


def _undominated(points: list[tuple[float, float, Plan]]) -> list[tuple[float, float, Plan]]:
    kept: list[tuple[float, float, Plan]] = []
    for each in sorted(points, key=lambda point: (-point[0], -point[1])):
        if not kept or each[1] > kept[-1][1]:
            kept.append(each)
    return kept


def _document(user: float, accelerator: float, plan: Plan) -> dict[str, Any]:
    decode = plan.decode if isinstance(plan, SplitPlan) else plan
    return {
        "tokens_per_s_per_user": user,
        "tokens_per_s_per_accelerator": accelerator,
        "requests": decode.replicas * decode.batch * decode.attention_data,
        "plan": plan.document(),
    }
