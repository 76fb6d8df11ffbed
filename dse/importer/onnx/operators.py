"""What each ONNX operator is in a :class:`~dse.graph.trace.Trace`: one handler an operator, in one table.

Names and semantics are those of the ONNX operator schemas (https://onnx.ai/onnx/operators), opset 7 and later.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from dse.graph.trace import Attribute
from dse.importer.onnx.node import Node
from dse.importer.onnx.recorder import OnnxRecorder
from dse.importer.onnx.views import VIEW_HANDLERS

Handler = Callable[[OnnxRecorder, Node], None]


def other(recorder: OnnxRecorder, node: Node) -> None:
    """An operator without a rule of its own."""
    read = [recorder.value(name) for name in node.inputs if name]
    attributes: dict[str, Attribute] = {"name": node.kind if not node.domain else f"{node.domain}.{node.kind}"}
    formula = _FORMULAS.get(node.kind) if not node.domain else None
    if formula is not None:
        attributes["flops"] = formula(recorder, node)
    recorder.write_all("other", read, node.outputs, **attributes)


def _einsum_flops(recorder: OnnxRecorder, node: Node) -> int:
    """Two for each combination of the indices of all operands."""
    terms = str(node.attributes["equation"]).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, name in zip(terms, node.inputs, strict=True):
        sizes.update(zip(reversed(term.replace("...", "")), reversed(recorder.shape(name)), strict=False))
    return 2 * prod(sizes.values())


def _recurrent_flops(recorder: OnnxRecorder, node: Node) -> int:
    """The products of a recurrent layer: inputs and states with W and R (their gates stacked), once per token."""
    weights = sum(recorder.elements(name) for name in node.inputs[1:3])
    return 2 * prod(recorder.shape(node.inputs[0])[:2]) * weights


_FORMULAS: Mapping[str, Callable[[OnnxRecorder, Node], int]] = MappingProxyType(
    {"Einsum": _einsum_flops, "LSTM": _recurrent_flops, "GRU": _recurrent_flops, "RNN": _recurrent_flops}
)
"""FLOPs of operators that have no rule of their own."""


def _operands(recorder: OnnxRecorder, node: Node, count: int) -> list[int]:
    """The first inputs that are there."""
    return [recorder.value(name) for name in node.inputs[:count] if name]


def _axis(recorder: OnnxRecorder, node: Node, default: int) -> int:
    return int(node.attributes.get("axis", default)) % max(1, len(recorder.shape(node.inputs[0])))


# Products -------------------------------------------------------------------------------------------------------------


def _matmul(recorder: OnnxRecorder, node: Node) -> None:
    """Vectors are matrices of one row or column."""
    left, right = (recorder.value(name) for name in node.inputs)
    rows, columns = (recorder.shape(name) for name in node.inputs)
    if len(rows) > 1 and len(columns) > 1:
        recorder.write("matmul", [left, right], node.outputs[0])
        return
    if len(rows) == 1:
        rows = (1, *rows)
        left = recorder.make("reshape", [left], rows)
    if len(columns) == 1:
        columns = (*columns, 1)
        right = recorder.make("reshape", [right], columns)
    batch = max(rows[:-2], columns[:-2], key=len)
    product = recorder.make("matmul", [left, right], (*batch, rows[-2], columns[-1]))
    recorder.write("reshape", [product], node.outputs[0])


def _gemm(recorder: OnnxRecorder, node: Node) -> None:
    """Result: alpha · A · B + beta · C, with A and B transposed or not."""
    factors = []
    for name, flag in zip(node.inputs[:2], ("transA", "transB"), strict=True):
        value, shape = recorder.value(name), recorder.shape(name)
        turned = node.attributes.get(flag, 0)
        factors.append(recorder.make("permute", [value], shape[::-1], axes=(1, 0)) if turned else value)
    output, bias = node.outputs[0], node.input(2)
    alpha = float(node.attributes.get("alpha", 1.0))
    if alpha == 1 and (not bias or recorder.shape(bias) == recorder.shape(output)[-1:]):
        recorder.write("matmul", [*factors, *([recorder.value(bias)] if bias else [])], output)
        return
    product = recorder.make("matmul", factors, recorder.shape(output))
    if alpha != 1 and bias:
        product = recorder.make("elementwise", [product], recorder.shape(output), function="scale", operand=alpha)
    if bias:
        recorder.write("elementwise", [product, recorder.value(bias)], output, function="add")
    else:
        recorder.write("elementwise", [product], output, function="scale", operand=alpha)


def _convolution(recorder: OnnxRecorder, node: Node) -> None:
    source, weight = node.inputs[:2]
    kernel = recorder.shape(weight)[2:]
    ones = (1,) * len(kernel)
    transposed = node.kind == "ConvTranspose"
    operands = _operands(recorder, node, 3)
    pads = _pads(recorder, node, kernel)
    if not transposed:
        operands[0], pads = _padded_evenly(recorder, source, pads)
    recorder.write(
        "convolution",
        operands,
        node.outputs[0],
        stride=tuple(node.attributes.get("strides", ones)),
        padding=pads[: len(kernel)],
        dilation=tuple(node.attributes.get("dilations", ones)),
        groups=int(node.attributes.get("group", 1)),
        transposed=int(transposed),
    )


def _pads(recorder: OnnxRecorder, node: Node, kernel: Sequence[int]) -> tuple[int, ...]:
    """Padding in front of each spatial axis, then behind each."""
    rank = len(kernel)
    if not str(node.attributes.get("auto_pad", "NOTSET")).startswith("SAME"):
        return tuple(node.attributes.get("pads", (0,) * 2 * rank))
    strides = node.attributes.get("strides", (1,) * rank)
    dilations = node.attributes.get("dilations", (1,) * rank)
    sizes, made = recorder.shape(node.inputs[0])[2:], recorder.shape(node.outputs[0])[2:]
    totals = [
        max(0, (after - 1) * stride + (taps - 1) * step + 1 - before)
        for before, after, taps, stride, step in zip(sizes, made, kernel, strides, dilations, strict=True)
    ]
    upper = node.attributes["auto_pad"] == "SAME_UPPER"
    fronts = [total // 2 if upper else total - total // 2 for total in totals]
    return (*fronts, *(total - front for total, front in zip(totals, fronts, strict=True)))


def _padded_evenly(recorder: OnnxRecorder, source: str, pads: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The input and the padding on both sides; where the sides differ, the difference is a copy with more elements."""
    rank = len(pads) // 2
    fronts, backs = pads[:rank], pads[rank:]
    value = recorder.value(source)
    if fronts == backs:
        return value, pads
    even = tuple(map(min, zip(fronts, backs, strict=True)))
    (*outer,) = recorder.shape(source)[:2]
    inner = [
        size + front + back - 2 * both
        for size, front, back, both in zip(recorder.shape(source)[2:], fronts, backs, even, strict=True)
    ]
    return recorder.make("copy", [value], (*outer, *inner)), even * 2


# Elementwise ----------------------------------------------------------------------------------------------------------


def _elementwise(function: str) -> Handler:
    """Elementwise work over the operands that are more than one number."""

    def handler(recorder: OnnxRecorder, node: Node) -> None:
        names = [name for name in node.inputs if name and recorder.number(name) is None]
        operands = [recorder.value(name) for name in names or node.inputs[:1]]
        recorder.write("elementwise", operands, node.outputs[0], function=function)

    return handler


def _binary(function: str, scalar_function: str) -> Handler:
    """An operator of two operands of which one may be a known number."""

    def handler(recorder: OnnxRecorder, node: Node) -> None:
        left, right = node.inputs
        output = node.outputs[0]
        for tensor, number in ((left, recorder.number(right)), (right, recorder.number(left))):
            if number is not None and recorder.shape(tensor) == recorder.shape(output):
                if function == "divide":
                    number = (1 / number if number else 0.0) if tensor == left else number
                number = -number if function == "subtract" and tensor == left else number
                value = recorder.value(tensor)
                if tensor == right and function in ("divide", "subtract"):
                    inverse = "negate" if function == "subtract" else "divide"
                    value = recorder.make("elementwise", [value], recorder.shape(tensor), function=inverse)
                recorder.write("elementwise", [value], output, function=scalar_function, operand=number)
                return
        recorder.write("elementwise", [recorder.value(left), recorder.value(right)], output, function=function)

    return handler


def _power(recorder: OnnxRecorder, node: Node) -> None:
    exponent = recorder.number(node.inputs[1])
    base, output = recorder.value(node.inputs[0]), node.outputs[0]
    if exponent in (0.5, -0.5):
        recorder.write("elementwise", [base], output, function="sqrt" if exponent == 0.5 else "rsqrt")
    elif exponent is not None:
        recorder.write("elementwise", [base], output, function="power", operand=exponent)
    else:
        recorder.write("elementwise", [base, recorder.value(node.inputs[1])], output, function="power", operand=0.0)


def _dropout(recorder: OnnxRecorder, node: Node) -> None:
    """Drops only where the file says training mode; opset 11 and older left that to the runtime: inference."""
    training = recorder.number(node.input(2))
    probability = recorder.number(node.input(1))
    probability = 0.5 if probability is None else probability
    if training and probability:
        recorder.write("dropout", [recorder.value(node.inputs[0])], node.outputs[0], probability=probability)
    else:
        recorder.alias(node.inputs[0], node.outputs[0])


# Reductions and normalisations ----------------------------------------------------------------------------------------


def _softmax(recorder: OnnxRecorder, node: Node) -> None:
    """Before opset 13 all axes from ``axis`` on were one row; the last one is what files mean by it."""
    axis = _axis(recorder, node, -1 if recorder.opset >= 13 else 1)
    recorder.write("softmax", [recorder.value(node.inputs[0])], node.outputs[0], axis=axis)


def _layer_norm(kind: str) -> Handler:
    def handler(recorder: OnnxRecorder, node: Node) -> None:
        axes = tuple(range(_axis(recorder, node, -1), len(recorder.shape(node.inputs[0]))))
        operands = _operands(recorder, node, 3 if kind == "layer_norm" else 2)
        recorder.write("layer_norm" if kind == "layer_norm" else "rms_norm", operands, node.outputs[0], axes=axes)

    return handler


def _batch_norm(recorder: OnnxRecorder, node: Node) -> None:
    recorder.write("batch_norm", _operands(recorder, node, 3), node.outputs[0])


def _group_norm(recorder: OnnxRecorder, node: Node) -> None:
    """Instance normalisation has a group for each channel."""
    groups = int(node.attributes.get("num_groups", recorder.shape(node.inputs[0])[1]))
    recorder.write("group_norm", _operands(recorder, node, 3), node.outputs[0], groups=groups)


def _reduction(function: str) -> Handler:
    def handler(recorder: OnnxRecorder, node: Node) -> None:
        source = node.inputs[0]
        rank = len(recorder.shape(source))
        stated = node.attributes.get("axes", recorder.integers(node.input(1)))
        if "axis" in node.attributes or node.kind.startswith("Arg"):
            stated = [node.attributes.get("axis", 0)]
        axes = tuple(sorted(int(axis) % rank for axis in (stated or range(rank))))
        if not stated and node.attributes.get("noop_with_empty_axes", 0):
            recorder.alias(source, node.outputs[0])
            return
        keep = int(node.attributes.get("keepdims", 1))
        recorder.write("reduction", [recorder.value(source)], node.outputs[0], function=function, axes=axes, keep=keep)

    return handler


def _pooling(function: str) -> Handler:
    def handler(recorder: OnnxRecorder, node: Node) -> None:
        source = node.inputs[0]
        inner = recorder.shape(source)[2:]
        kernel = inner if node.kind.startswith("Global") else tuple(node.attributes["kernel_shape"])
        value, pads = _padded_evenly(recorder, source, _pads(recorder, node, kernel))
        default = inner if node.kind.startswith("Global") else (1,) * len(kernel)
        recorder.write(
            "pooling",
            [value],
            node.outputs[0],
            function=function,
            kernel=kernel,
            stride=tuple(node.attributes.get("strides", default)),
            padding=pads[: len(kernel)],
        )

    return handler


def _cross_entropy(recorder: OnnxRecorder, node: Node) -> None:
    operands = _operands(recorder, node, 2)
    recorder.write("cross_entropy", operands, node.outputs[0], axis=1, participants=1)


def _table() -> dict[str, Handler]:
    rows: tuple[tuple[Handler, str], ...] = (
        (_matmul, "MatMul"),
        (_gemm, "Gemm"),
        (_convolution, "Conv ConvTranspose"),
        (_binary("add", "add_constant"), "Add"),
        (_binary("subtract", "add_constant"), "Sub"),
        (_binary("multiply", "scale"), "Mul"),
        (_binary("divide", "scale"), "Div"),
        (_power, "Pow"),
        (_elementwise("add"), "Sum Mean"),
        (_elementwise("divide"), "Reciprocal Mod"),
        (_elementwise("negate"), "Neg"),
        (_elementwise("relu"), "Relu LeakyRelu PRelu ThresholdedRelu"),
        (_elementwise("gelu"), "Gelu"),
        (_elementwise("silu"), "Swish HardSwish Mish"),
        (_elementwise("sigmoid"), "Sigmoid HardSigmoid"),
        (_elementwise("tanh"), "Tanh Softsign"),
        (_elementwise("erf"), "Erf"),
        (_elementwise("exp"), "Exp Elu Celu Selu"),
        (_elementwise("log"), "Log Softplus"),
        (_elementwise("sqrt"), "Sqrt"),
        (_elementwise("sin"), "Sin"),
        (_elementwise("cos"), "Cos"),
        (_elementwise("abs"), "Abs Sign Floor Ceil Round"),
        (_elementwise("clamp"), "Clip"),
        (_elementwise("maximum"), "Max"),
        (_elementwise("minimum"), "Min"),
        (_elementwise("select"), "Where"),
        (
            _elementwise("compare"),
            "Equal Less LessOrEqual Greater GreaterOrEqual And Or Not Xor IsNaN IsInf",
        ),
        (_elementwise("mask"), "Trilu"),
        (_dropout, "Dropout"),
        (_softmax, "Softmax LogSoftmax"),
        (_layer_norm("layer_norm"), "LayerNormalization"),
        (_layer_norm("rms_norm"), "RMSNormalization"),
        (_batch_norm, "BatchNormalization"),
        (_group_norm, "InstanceNormalization GroupNormalization"),
        (_reduction("sum"), "ReduceSum ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp"),
        (_reduction("mean"), "ReduceMean"),
        (_reduction("max"), "ReduceMax ReduceMin ReduceProd ArgMax ArgMin"),
        (_pooling("max"), "MaxPool GlobalMaxPool"),
        (_pooling("mean"), "AveragePool GlobalAveragePool"),
        (_cross_entropy, "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss"),
    )
    return {name: handler for handler, names in rows for name in names.split()}


HANDLERS: Mapping[str, Handler] = MappingProxyType(_table() | dict(VIEW_HANDLERS))
"""Handlers by operator, of ONNX's own domain."""
