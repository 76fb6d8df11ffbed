"""The one table of factor rules, by HLO opcode."""

from dse.graph.step import StepGraph
from dse.sharding.factors import Factor, Rule, RuleError, Shapes, shapes_of
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
from hardware.inputs import InputError, fail

ELEMENTWISE = frozenset((
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "copy", "cosine", "divide",
    "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic",
    "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real", "reduce-precision",
    "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract",
    "tan", "tanh", "xor", "count-leading-zeros", "map", "while-begin", "while-end", "branch-begin", "branch-end",
    "all-reduce", "domain", "copy-start", "copy-done", "optimization-barrier",
))  # fmt: skip
"""Opcodes that treat every element alone; scalars among the operands stand for arrays."""

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
    "topk": outer(1),
    "cholesky": outer(2),
    "triangular-solve": outer(2),
    "gather": gather,
    "scatter": scatter,
    "constant": free,
    "iota": free,
    "rng": free,
    "rng-bit-generator": whole,
    "get-dimension-size": whole,
    "local-view": whole,
}


def factors_of(shapes: Shapes) -> tuple[Factor, ...] | None:
    """The factors of an operation, those of one part left out; None for an operation without a rule.

    Raises:
        RuleError: shapes that the operation does not allow.
    """
    opcode = shapes.operation.opcode
    rule = elementwise if opcode in ELEMENTWISE else _RULES.get(opcode)
    if rule is None:
        return None
    return tuple(factor for factor in rule(shapes) if factor.size > 1)


def step_factors(graph: StepGraph, file: str = "") -> tuple[tuple[Factor, ...] | None, ...]:
    """The factors of every operation of a step, as :func:`factors_of` has them; none of those that make constants.

    Args:
        graph: the step.
        file: what errors call it.

    Raises:
        InputError: an operation whose shapes or attributes break the rule of its opcode.
    """
    table: list[tuple[Factor, ...] | None] = []
    for number, operation in enumerate(graph.operations):
        try:
            factors = factors_of(shapes_of(operation, graph.values))
        except (ValueError, IndexError) as error:
            # Rules state what must hold of shapes; operands or dimensions that are not there at all break them before.
            rule = (
                str(error)
                if isinstance(error, RuleError)
                else "must have the operands, dimensions and attributes of its opcode"
            )
            raise _fault(graph, number, rule, file) from error
        table.append(() if graph.is_constant(number) else factors)
    return tuple(table)


def _fault(graph: StepGraph, number: int, rule: str, file: str) -> InputError:
    """What is wrong with the operation of this number: where it stands, what it is called, the rule of its opcode."""
    operation = graph.operations[number]
    name = graph.values[operation.results[0]].name if operation.results else operation.opcode
    if not graph.places:
        return fail(file, name, operation.opcode, rule)
    return fail(file, graph.places[number], name, f"{operation.opcode}: {rule}")
