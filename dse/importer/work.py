"""The tensor-core work of a step: which products it makes, and their FLOPs."""

from math import prod

from dse.graph.tensor_operators import ConvolutionShape
from dse.graph.trace import Step, Trace
from hardware.operations import Convolution, Gemm


def matmul_shape(trace: Trace, step: Step) -> Gemm:
    """The product of a ``matmul`` step; leading dimensions that one operand lacks are rows of the other."""
    left, right = (trace.values[index].shape for index in step.inputs[:2])
    output = trace.values[step.outputs[0]].shape
    m, k, n = left[-2], left[-1], right[-1]
    batch = prod(output[:-2])
    if prod(right[:-2]) == 1:
        return Gemm(m=batch * m, n=n, k=k)
    if prod(left[:-2]) == 1:
        return Gemm(m=m, n=batch * n, k=k)
    return Gemm(m=m, n=n, k=k, batch=batch)


def convolution_shape(trace: Trace, step: Step) -> ConvolutionShape:
    """The products of a ``convolution`` step.

    A plain convolution of one stride is a :class:`Convolution`, and so are its gradients at stride 1 (of the filters:
    channels and images change places). Any other is the implicit GEMM of its lowering to matrices.
    """
    source, filters = (trace.values[index].shape for index in step.inputs[:2])
    output = trace.values[step.outputs[0]].shape
    taps = prod(filters[2:])
    groups = _whole(step, "groups")
    transposed = bool(_whole(step, "transposed"))
    pixels = source[0] * prod((source if transposed else output)[2:])
    inner, outer = (output, source) if transposed else (source, output)
    lowered = Gemm(m=pixels, n=outer[1] // groups, k=inner[1] // groups * taps, batch=groups)
    turned = Gemm(m=pixels, n=lowered.k, k=lowered.n, batch=groups)
    forward: Convolution | Gemm
    data: Convolution | Gemm
    weight: Convolution | Gemm = Gemm(m=lowered.n, n=lowered.k, k=pixels, batch=groups)
    forward, data = (turned, lowered) if transposed else (lowered, turned)
    plain = None if transposed else _plain(step, source, filters, output, groups)
    if plain is not None:
        forward = plain
        rows, columns = plain.output_height, plain.output_width
        side = plain.kernel_height - 1 - plain.padding
        if plain.stride == 1 and groups == 1:
            weight = Convolution(
                source[1], source[0], output[1], plain.height, plain.width, rows, columns, 1, plain.padding
            )
            if plain.kernel_height == plain.kernel_width and side == plain.padding:
                kernel = plain.kernel_height
                data = Convolution(source[0], output[1], source[1], rows, columns, kernel, kernel, 1, side)
    bias = trace.values[step.inputs[2]].elements if len(step.inputs) > 2 else 0
    is_source_left = transposed or isinstance(weight, Convolution)
    return ConvolutionShape(forward, data, weight, prod(output), bias, is_source_left)


def _plain(
    step: Step, source: tuple[int, ...], filters: tuple[int, ...], output: tuple[int, ...], groups: int
) -> Convolution | None:
    """The convolution in two dimensions (one becomes a row), where stride and padding are the same both ways."""
    stride, padding, dilation = (_pair(step, name) for name in ("stride", "padding", "dilation"))
    if len(filters) > 4 or any(size != 1 for size in dilation):
        return None
    if len(filters) == 3:
        if padding[0] or stride[0] != 1:
            return None  # a row of height 1 cannot be padded or strided one way only
        source, filters, output = ((*shape[:2], 1, shape[2]) for shape in (source, filters, output))
        stride, padding = stride * 2, padding * 2
    if len(set(stride)) > 1 or len(set(padding)) > 1:
        return None
    convolution = Convolution(
        source[0], source[1], output[1], source[2], source[3], filters[2], filters[3], stride[0], padding[0], groups
    )
    fits = (convolution.output_height, convolution.output_width) == output[2:]
    return convolution if fits else None


def tensor_flops(trace: Trace, step: Step) -> int:
    """FLOPs of a step's forward pass on tensor cores; of an unknown operator where its library has a formula."""
    if step.kind == "matmul":
        return matmul_shape(trace, step).flops
    if step.kind == "convolution":
        return convolution_shape(trace, step).forward.flops
    return _whole(step, "flops") if "flops" in step.attributes else 0


def _whole(step: Step, name: str) -> int:
    value = step.attributes[name]
    assert isinstance(value, int), f"{step.kind}.{name} must be a whole number"
    return value


def _pair(step: Step, name: str) -> tuple[int, ...]:
    value = step.attributes[name]
    assert isinstance(value, tuple), f"{step.kind}.{name} must be a tuple"
    return value
