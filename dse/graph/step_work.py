"""What an operation of a step computes."""

import re
from collections.abc import Sequence
from math import prod

from dse.graph.step import StepOperation, StepValue

_LABELS = re.compile(r"[\dbf?]+_([\dio?]+)->")


def flops_of(operation: StepOperation, values: Sequence[StepValue]) -> int:
    """Floating-point operations of a product or a convolution, a multiplication and an addition as two; otherwise 0."""
    if operation.opcode not in ("dot", "convolution"):
        return 0
    outputs = prod(values[operation.results[0]].dims)
    left, right = (values[each].dims for each in operation.operands[:2])
    if operation.opcode == "dot":
        inner = operation.attributes.get("lhs_contracting_dims", ())
        return 2 * outputs * prod(left[int(dim)] for dim in inner)
    match = _LABELS.match(str(operation.attributes.get("dim_labels", "")))
    return 2 * outputs * (prod(right) // right[match.group(1).index("o")]) if match else 0
