"""Operators that treat every element alone, make arrays out of nothing, or give what they take."""

from math import inf, prod

from dse.importer.torch.aten.call import Call, Handler, NotTranslatedError
from dse.importer.torch.aten.views import View

UNARY = {
    "abs": "abs", "ceil": "ceil", "cos": "cosine", "erf": "erf", "exp": "exponential",
    "expm1": "exponential-minus-one", "floor": "floor", "log": "log", "log1p": "log-plus-one", "neg": "negate",
    "round": "round-nearest-even", "rsqrt": "rsqrt", "sigmoid": "logistic", "sign": "sign", "sin": "sine",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "logical_not": "not", "bitwise_not": "not", "_to_copy": "convert",
}  # fmt: skip
BINARY = {
    "mul": "multiply", "div": "divide", "maximum": "maximum", "minimum": "minimum", "pow": "power",
    "remainder": "remainder", "fmod": "remainder", "logical_and": "and", "bitwise_and": "and", "logical_or": "or",
    "bitwise_or": "or", "logical_xor": "xor", "bitwise_xor": "xor",
}  # fmt: skip
COMPARED = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def unary(call: Call) -> View:
    """One operand."""
    return call.elementwise(UNARY[call.name], [call.tensor("self")])


def binary(call: Call) -> View:
    """Two operands, either of which may be a number."""
    second = "exponent" if call.name == "pow" else "other"
    if call.given.get("rounding_mode"):
        raise NotTranslatedError
    if call.name in ("mul", "div") and call.given[second] == 1:  # as decompositions leave it behind
        return call.tensor("self")
    return call.elementwise(BINARY[call.name], [call.operand("self"), call.operand(second)])


def addition(call: Call) -> View:
    """``add``, ``sub`` and ``rsub``, with the factor of the second operand."""
    left, right = call.operand("self"), call.operand("other")
    scale = call.given.get("alpha", 1)
    if scale != 1:
        shape, dtype = call.build.shape(right), call.build.dtype(right)
        right = call.build.elementwise("multiply", [right, call.build.number(scale, dtype)], shape, dtype)
    operands = [right, left] if call.name == "rsub" else [left, right]
    return call.elementwise("add" if call.name == "add" else "subtract", operands)


def compared(call: Call) -> View:
    """A comparison."""
    left = call.tensor("self")
    other = call.given["other"]
    right = other if isinstance(other, View) else call.build.number(other, call.build.dtype(left))
    return call.elementwise("compare", [left, right], direction=COMPARED[call.name])


def reciprocal(call: Call) -> View:
    """One over the operand."""
    return call.elementwise("divide", [call.number(1), call.tensor("self")])


def relu(call: Call) -> View:
    """The larger of the operand and 0."""
    return call.elementwise("maximum", [call.tensor("self"), call.number(0)])


def clamp(call: Call) -> View:
    """Between two numbers, either of which may be missing."""
    result = call.tensor("self")
    for key, opcode in (("min", "maximum"), ("max", "minimum")):
        if call.given.get(key) is not None:
            result = call.elementwise(opcode, [result, call.operand(key)])
    return result


def where(call: Call) -> View:
    """One of two."""
    return call.elementwise("select", [call.tensor("condition"), call.operand("self"), call.operand("other")])


def same(call: Call) -> View:
    """Copies and aliases."""
    return call.tensor("self")


def copied(call: Call) -> View:
    """What is written over another array."""
    source = call.tensor("src")
    return source if call.build.shape(source) == call.shape else call.build.full(call.shape, 0, call.dtype)


def filled(number: float | None) -> Handler:
    """An array of ``number``, or of the operator's own."""

    def handler(call: Call) -> View:
        value = number
        for key in ("fill_value", "s", "value"):
            value = call.given.get(key, value) if number is None else value
        if value is None or isinstance(value, View):
            raise NotTranslatedError
        return call.build.full(call.shape, value, call.dtype)

    return handler


def arange(call: Call) -> View:
    """Numbers in a row."""
    start, step = call.given.get("start") or 0, call.given.get("step") or 1
    row = call.build.one("iota", (), call.shape, call.dtype, iota_dimension=(0,))
    if step != 1:
        row = call.elementwise("multiply", [row, call.number(step)])
    return call.elementwise("add", [row, call.number(start)]) if start else row


def random(call: Call) -> View:
    """Numbers drawn at random."""
    return call.build.one("rng", (), call.shape, call.dtype)


def mapped(call: Call) -> View:
    """Any other function of the elements."""
    operands = [value for value in call.given.values() if isinstance(value, View)]
    return call.elementwise("map", operands, function=call.name)


# Reductions -----------------------------------------------------------------------------------------------------------

REDUCED = {"sum": "add", "amax": "maximum", "amin": "minimum", "prod": "multiply", "any": "or", "all": "and"}


def reduction(call: Call) -> View:
    """A sum, a product, a maximum or a minimum along some dimensions."""
    source = call.tensor("self")
    along = _along(call, source)
    if call.name in ("any", "all") and call.build.dtype(source) != "pred":
        zero = call.build.number(0, call.build.dtype(source))
        source = call.build.elementwise("compare", [source, zero], call.build.shape(source), "pred", direction="NE")
    return call.build.reduce(source, along, REDUCED[call.name], call.dtype, keep=bool(call.given.get("keepdim")))


def mean(call: Call) -> View:
    """A sum over the number of its terms."""
    return _mean(call, call.tensor("self"), _along(call, call.tensor("self")), bool(call.given.get("keepdim")))


def variance(call: Call) -> View:
    """``var``."""
    return _moments(call)[0]


def variance_and_mean(call: Call) -> tuple[View, View]:
    """``var_mean``."""
    return _moments(call)


def _along(call: Call, source: View) -> tuple[int, ...]:
    rank = len(call.build.shape(source))
    return call.dims("dim", rank) if call.given.get("dim") is not None else tuple(range(rank))


def _mean(call: Call, source: View, along: tuple[int, ...], keep: bool, correction: float = 0) -> View:
    build, shape = call.build, call.build.shape(source)
    total = build.reduce(source, along, "add", call.dtype, keep=keep)
    count = prod(shape[dim] for dim in along) - correction
    divisor = build.number(count if count > 0 else inf, call.dtype)
    return build.elementwise("divide", [total, divisor], build.shape(total), call.dtype)


def _moments(call: Call) -> tuple[View, View]:
    """As libraries that work on HLO write them: the mean of squared differences from the mean."""
    build, source = call.build, call.tensor("self")
    along, shape, keep = _along(call, source), build.shape(source), bool(call.given.get("keepdim"))
    centre = _mean(call, source, along, keep=True)
    centred = build.elementwise("subtract", [source, centre], shape, call.dtype)
    squares = build.elementwise("multiply", [centred, centred], shape, call.dtype)
    correction = call.given.get("correction")
    spread = _mean(call, squares, along, keep, 1 if correction is None else correction)
    return spread, build.reshape(centre, call.shape)
