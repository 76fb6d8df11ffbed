"""The operations of a step that every device does whole, as no rule says how they can be split, and what they cost."""

from collections.abc import Sequence
from typing import Any

from dse.graph.step import StepGraph, StepOperation
from dse.graph.step_work import flops_of
from dse.sharding.factors import Factor

_MAX_NAMES = 3


def whole_operations(graph: StepGraph, rules: Sequence[tuple[Factor, ...] | None]) -> list[dict[str, Any]]:
    """In JSON types, by opcode: ``opcode``, of custom calls with its target; ``count``; ``flops`` of all of them, with
    their repeats; ``names`` of the first few.
    """
    found: dict[str, dict[str, Any]] = {}
    for operation, rule in zip(graph.operations, rules, strict=True):
        if rule is None:
            opcode = _shown_opcode(operation)
            row = found.setdefault(opcode, {"opcode": opcode, "count": 0, "flops": 0, "names": []})
            row["count"] += 1
            row["flops"] += operation.repeats * flops_of(operation, graph.values)
            if len(row["names"]) < _MAX_NAMES:
                row["names"].append(graph.values[operation.results[0]].name if operation.results else opcode)
    return [found[opcode] for opcode in sorted(found)]


def whole_note(row: dict[str, Any]) -> str:
    """For users: which operations are done whole, why, and by what they are priced."""
    more = f" and {row['count'] - len(row['names']):,} more" if row["count"] > len(row["names"]) else ""
    priced = f"{row['flops']:,} FLOPs" if row["flops"] else "memory traffic, because its FLOPs are unknown"
    return (
        f"{row['opcode']} is replicated on every device ({', '.join(row['names'])}{more}), because no sharding rule "
        "covers "
        f"it. Its cost is based on {priced}."
    )


def _shown_opcode(operation: StepOperation) -> str:
    """The opcode, of a custom call with what it calls."""
    target = str(operation.attributes.get("custom_call_target", "")).strip('"')
    return f"{operation.opcode} {target}".rstrip()
