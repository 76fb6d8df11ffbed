"""Which element types an operation's arrays must share (XLA's shape inference, ``xla/service/shape_inference.cc``).

As there, floating-point types count as one: operations may mix them. Operations that say themselves what type they
give (products, conversions, random numbers, custom calls) are not judged.
"""

from collections.abc import Iterable, Sequence

_EQUAL = frozenset((
    "add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "subtract", "xor",
    "cbrt", "ceil", "copy", "cosine", "erf", "exponential", "exponential-minus-one", "floor", "log", "log-plus-one",
    "logistic", "negate", "not", "round-nearest-afz", "round-nearest-even", "rsqrt", "sign", "sine", "sqrt", "tan",
    "tanh", "clamp",
    "broadcast", "concatenate", "pad", "reshape", "reverse", "slice", "transpose",
))  # fmt: skip
"""Opcodes whose operands and results have one type."""


def types_agree(opcode: str, operands: Sequence[str], results: Sequence[str]) -> bool:
    """Whether the element types of an operation's arrays are compatible.

    Args:
        opcode: as HLO text has it.
        operands: the element type of each operand (``f32``).
        results: that of each result.
    """
    return all(len({_kind(each) for each in group}) <= 1 for group in _groups(opcode, operands, results))


def _kind(dtype: str) -> str:
    return "float" if dtype.startswith(("f", "bf")) else dtype


def _groups(opcode: str, operands: Sequence[str], results: Sequence[str]) -> Iterable[Sequence[str]]:
    """Groups of types, each of which must be one type."""
    if opcode in _EQUAL:
        return [[*operands, *results]]
    count = len(results)
    match opcode:
        case "compare":
            return [operands, ["pred", *results]]
        case "select":
            return [["pred", *operands[:1]], [*operands[1:], *results]]
        case "convolution":
            return [operands]
        case "dynamic-slice" | "gather":
            return [[*operands[:1], *results]]
        case "dynamic-update-slice":
            return [[*operands[:2], *results]]
        case "select-and-scatter":
            return [[*operands, *results]]
        case "sort":
            return zip(operands, results, strict=False)
        case "reduce" | "reduce-window":  # each array has its initial value
            return zip(operands[:count], operands[count:], strict=False)
        case "scatter":  # arrays, positions, updates
            return zip(operands[:count], operands[count + 1 :], results, strict=False)
    return []
