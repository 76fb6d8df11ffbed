"""The one table of factor rules, by HLO opcode."""

from dse.sharding.factors import Factor, Rule, Shapes
from dse.sharding.hlo.elements import elementwise, free, whole
from dse.sharding.hlo.lookups import gather, scatter
from dse.sharding.hlo.moves import (
    bitcast,
    broadcast,
    concatenate,
    dynamic_slice,
    dynamic_update_slice,
    pad,
    reshape,
    reverse,
    slice_,
    transpose,
)
from dse.sharding.hlo.products import convolution, dot
from dse.sharding.hlo.reductions import across, fft, outer, reduce, reduce_window, select_and_scatter

ELEMENTWISE = frozenset((
    "abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "copy", "cosine", "divide",
    "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic",
    "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real", "reduce-precision",
    "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract",
    "tan", "tanh", "xor", "count-leading-zeros", "map", "while-begin", "while-end", "branch-begin", "branch-end",
    "all-reduce", "domain", "copy-start", "copy-done", "optimization-barrier",
))  # fmt: skip
"""Opcodes that treat every element alone; scalars among the operands stand for arrays."""

_IDENTITIES = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Targets of custom calls that give what they take."""

_RULES: dict[str, Rule] = {
    "broadcast": broadcast,
    "transpose": transpose,
    "reshape": reshape,
    "bitcast": bitcast,
    "bitcast-convert": bitcast,
    "concatenate": concatenate,
    "pad": pad,
    "slice": slice_,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "reverse": reverse,
    "dot": dot,
    "convolution": convolution,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
    "sort": across,
    "fft": fft,
    "cholesky": outer(2),
    "triangular-solve": outer(2),
    "gather": gather,
    "scatter": scatter,
    "constant": free,
    "iota": free,
    "rng": free,
    "rng-bit-generator": whole,
    "get-dimension-size": whole,
    "custom-call": elementwise,
}


def factors_of(shapes: Shapes) -> tuple[Factor, ...] | None:
    """The factors of an operation, those of one part left out; None for an operation without a rule.

    Raises:
        RuleError: shapes that the operation does not allow.
    """
    opcode = shapes.operation.opcode
    rule = elementwise if opcode in ELEMENTWISE else _RULES.get(opcode)
    if rule is None or (opcode == "custom-call" and shapes.text("custom_call_target").strip('"') not in _IDENTITIES):
        return None
    return tuple(factor for factor in rule(shapes) if factor.size > 1)
