"""A step graph run in numpy, operation by operation: what a translated training step is judged by."""

import math

import numpy as np

from tests.sharding import hlo_numpy

COMPARED = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
DTYPES = {"f32": np.float64, "s64": np.int64, "s32": np.int32, "u8": np.uint8, "pred": np.bool_}
ELEMENTWISE = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "exponential": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "negate": np.negative, "erf": np.vectorize(math.erf), "abs": np.abs, "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "select": lambda condition, yes, no: np.where(condition, yes, no), "sign": np.sign, "sine": np.sin,
    "cosine": np.cos,
}  # fmt: skip


def run(graph, arguments):
    """What the step returns for these arrays, one for each argument."""
    held = {argument.value: array for argument, array in zip(graph.arguments, arguments, strict=True)}
    for operation in graph.operations:
        shapes = [graph.values[each].dims for each in operation.results]
        dtype = DTYPES[graph.values[operation.results[0]].dtype]
        with np.errstate(all="ignore"):
            results = _results(operation, [held[each] for each in operation.operands], shapes, dtype)
        for each, shape, result in zip(operation.results, shapes, results, strict=True):
            assert np.shape(result) == shape, (operation, np.shape(result), shape)
            held[each] = np.asarray(result)
    return [held[each] for each in graph.results]


def _results(operation, operands, shapes, dtype):
    opcode, given = operation.opcode, operation.attributes
    if opcode in ELEMENTWISE:
        return [np.broadcast_to(ELEMENTWISE[opcode](*operands), shapes[0])]
    if opcode == "compare":
        return [COMPARED[given["direction"]](*operands)]
    if opcode == "convert":
        return [operands[0].astype(dtype)]
    if opcode == "constant":
        return [np.asarray(eval(given["literal"], {"inf": math.inf, "nan": math.nan}), dtype)]
    if opcode == "iota":
        return [np.broadcast_to(np.arange(shapes[0][0]), shapes[0])]
    if opcode == "broadcast":
        sizes = [1] * len(shapes[0])
        for dim, size in zip(given["dimensions"], operands[0].shape, strict=True):
            sizes[dim] = size
        return [np.broadcast_to(operands[0].reshape(sizes), shapes[0])]
    if opcode == "reduce" and given["combiner"] in ("and", "or"):
        return [{"and": np.all, "or": np.any}[given["combiner"]](operands[0], tuple(given["dimensions"]))]
    if opcode == "slice":
        ranges = [tuple(map(int, part.split(":"))) for part in given["slice"].strip("{}[]").split("], [")]
        return [operands[0][tuple(slice(*each) for each in ranges)]]
    if opcode == "scatter" and given["combiner"] == "other":
        assert not operands[0].any()  # so that writing is adding
        operation = operation._replace(attributes={**given, "combiner": "add"})
    return hlo_numpy.run(operation, operands, shapes)
