"""Memory of the fullest rank over a step, as a snapshot that pytorch.org/memory_viz draws.

The snapshot is what ``torch.cuda.memory._dump_snapshot`` writes: a pickle of plain dictionaries, lists, numbers and
texts, with one segment and the events of one device. State is allocated first and stays; each forward pass allocates
what it stores, which its backward pass frees; working memory lives as long as a backward pass. The most that is
allocated at once is the memory that the plan is priced with.
"""

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

from dse.plan.check_costs import plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.timeline import order
from dse.plan.training_plan import TrainingPlan

MAX_PASSES = 20_000
"""Passes of a stage that are drawn; memory repeats itself long before."""

_STATE = ("weights", "gradients", "optimizer", "communication", "context", "buffers")
_START = 0x7F0000000000
_PROTOCOL = 4
"""The latest that the viewer reads."""


class Event(NamedTuple):
    """An allocation, or with a negative size its end, and what it is of."""

    what: str
    size_bytes: int


def events(problem: PlanProblem, plan: TrainingPlan) -> Iterator[Event]:
    """Of the fullest rank, in their order; an end has the name of its allocation."""
    costs = plan_costs(problem, plan)
    sizes = [sum(parts.values()) for parts in costs.stage_memory]
    stage = sizes.index(max(sizes))
    memory, rounds = costs.stage_memory[stage], problem.global_batch // (plan.data * plan.microbatch)
    passes = order(stage, plan.pipeline, plan.interleave, rounds, plan.schedule == "gpipe")
    most = max_in_flight = 0
    for each in passes:
        most += -1 if each.is_backward else 1
        max_in_flight = max(max_in_flight, most)
    kept = round(memory["activations"] / max_in_flight)
    working = round(memory["working"] + memory.get("reserved", 0.0) + memory.get("allocator", 0.0))
    for name in _STATE:
        if name in memory:
            yield Event(name, round(memory[name]))
    for each in passes[:MAX_PASSES]:
        chunk = f", chunk {each.chunk + 1}" if plan.interleave > 1 else ""
        name = f"activations of microbatch {each.microbatch + 1}{chunk}"
        if not each.is_backward:
            yield Event(name, kept)
            continue
        yield Event(f"working memory beside {name}", working)
        yield Event(f"working memory beside {name}", -working)
        yield Event(name, -kept)


def memory_snapshot(problem: PlanProblem, plan: TrainingPlan) -> bytes:
    """The pickle."""
    trace: list[dict[str, Any]] = []
    live: dict[str, tuple[int, int]] = {}
    free: list[tuple[int, int]] = []
    top = 0
    for now_us, event in enumerate(events(problem, plan), start=1):
        if event.size_bytes > 0:
            address, top = _placed(free, event.size_bytes, top)
            live[event.what] = address, event.size_bytes
            trace.append(_entry("alloc", address, event.size_bytes, event.what, now_us))
        elif event.size_bytes < 0:
            address, size = live.pop(event.what)
            free.append((address, size))
            for action in ("free_requested", "free_completed"):
                trace.append(_entry(action, address, size, event.what, now_us))
    blocks = [_block(address, size, "active_allocated", what) for what, (address, size) in live.items()]
    taken = {address for address, _ in live.values()}
    blocks += [_block(address, size, "inactive", "") for address, size in free if address not in taken]
    segment = {
        "device": 0, "address": _START, "total_size": top, "allocated_size": sum(size for _, size in live.values()),
        "active_size": sum(size for _, size in live.values()), "requested_size": top, "stream": 0,
        "segment_type": "large", "segment_pool_id": [0, 0], "is_expandable": False, "frames": [],
        "blocks": sorted(blocks, key=lambda block: block["address"]),
    }  # fmt: skip
    opened = _entry("segment_alloc", _START, top, f"memory of the fullest rank: {plan.text()}", 0)
    return pickle.dumps({"segments": [segment], "device_traces": [[opened, *trace]]}, protocol=_PROTOCOL)


def _placed(free: list[tuple[int, int]], size: int, top: int) -> tuple[int, int]:
    """The address of a block, and the end of what was ever used: the last hole of just this size, or behind all."""
    for place in range(len(free) - 1, -1, -1):
        if free[place][1] == size:
            return free.pop(place)[0], top
    return _START + top, top + size


def _entry(action: str, address: int, size: int, what: str, now_us: int) -> dict[str, Any]:
    frames = [{"filename": "plan", "line": 0, "name": what}]
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": now_us, "frames": frames}


def _block(address: int, size: int, state: str, what: str) -> dict[str, Any]:
    frames = [{"filename": "plan", "line": 0, "name": what}] if what else []
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": frames}
