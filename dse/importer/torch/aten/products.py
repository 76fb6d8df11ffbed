"""Matrix products, convolutions and pooling."""

from collections.abc import Sequence
from math import inf, prod

from dse.importer.torch.aten.call import Call, NotTranslatedError
from dse.importer.torch.aten.moves import padded
from dse.importer.torch.aten.views import Dims, View, permuted, plain


def product(call: Call) -> View:
    """``mm``, ``bmm``, ``mv`` and ``dot``."""
    right = "vec" if call.name == "mv" else "tensor" if call.name == "dot" else "mat2"
    views = call.tensor("self"), call.tensor(right)
    batch = 1 if call.name == "bmm" else 0
    inner = len(views[0].groups) - 1, batch
    return call.build.dot(*views, inner, batch, call.dtype)


# Convolutions ---------------------------------------------------------------------------------------------------------


def convolution(call: Call) -> View:
    """A convolution, transposed or not, with its bias."""
    build, spatial = call.build, len(call.shape) - 2
    image, kernel = (call.build.written(call.tensor(key)) for key in ("input", "weight"))
    strides, paddings, dilations = (_spread(call.given[key], spatial) for key in ("stride", "padding", "dilation"))
    groups = int(call.given["groups"])
    if call.given["transposed"]:
        sizes = build.values[image].dims[2:]
        result = _transposed(call, image, kernel, call.shape, (strides, paddings, dilations), groups, sizes)
    else:
        window = _window(build.values[kernel].dims[2:], strides, [(each, each) for each in paddings], (), dilations)
        digits = "".join(map(str, range(spatial)))
        labels = f"bf{digits}_oi{digits}->bf{digits}"
        result = build.one(
            "convolution", (image, kernel), call.shape, call.dtype,
            window=window, dim_labels=labels, feature_group_count=(groups,),
        )  # fmt: skip
    if call.given.get("bias") is None:
        return result
    bias = build.reshape(call.tensor("bias"), (call.shape[1], *(1,) * spatial))
    return call.elementwise("add", [result, bias])


def convolution_backward(call: Call) -> tuple[View | None, ...]:
    """Gradients of the image, the kernel and the bias, if requested."""
    build, gradient = call.build, call.tensor("grad_output")
    if call.given["transposed"]:
        raise NotTranslatedError
    image, kernel = (build.written(call.tensor(key)) for key in ("input", "weight"))
    spatial = len(build.values[image].dims) - 2
    strides, paddings, dilations = (_spread(call.given[key], spatial) for key in ("stride", "padding", "dilation"))
    groups = int(call.given["groups"])
    asked = call.given["output_mask"]
    output = build.written(gradient)
    results: list[View | None] = [None, None, None]
    if asked[0]:
        dims, sizes = build.values[image].dims, build.values[output].dims[2:]
        results[0] = _transposed(call, output, kernel, dims, (strides, paddings, dilations), groups, sizes)
    if asked[1]:
        results[1] = _kernel_gradient(call, image, output, kernel, (strides, paddings, dilations), groups)
    if asked[2]:
        along = [0, *range(2, 2 + spatial)]
        results[2] = build.reduce(gradient, along, "add", call.dtype)
    return tuple(results)


_Steps = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Strides, paddings and dilations of the convolution that is turned round."""


def _transposed(
    call: Call, image: int, kernel: int, dims: Dims, steps: _Steps, groups: int, sizes: Sequence[int]
) -> View:
    """The gradient of a convolution's image: its kernel backwards over the dilated gradient."""
    build, (strides, paddings, dilations) = call.build, steps
    kernels = build.values[kernel].dims
    spatial = len(kernels) - 2
    pads = []
    for dim in range(spatial):
        before = dilations[dim] * (kernels[2 + dim] - 1) - paddings[dim]
        dilated = (sizes[dim] - 1) * strides[dim] + 1
        reach = dilations[dim] * (kernels[2 + dim] - 1) + 1
        pads.append((before, dims[2 + dim] + reach - 1 - dilated - before))
    turned = build.one("reverse", (kernel,), kernels, call.dtype, dimensions=tuple(range(2, 2 + spatial)))
    outputs, inputs = kernels[:2]
    if groups > 1:  # a group's part of the kernel lies along its own features
        parts = build.reshape(turned, (groups, outputs // groups, inputs, *kernels[2:]))
        parts = permuted(parts, (1, 0, *range(2, 3 + spatial)))
        shape = (outputs // groups, groups * inputs, *kernels[2:])
        turned = plain(build.written(build.reshape(parts, shape)), shape)
    digits = "".join(map(str, range(spatial)))
    return build.one(
        "convolution", (image, turned.value), dims, call.dtype,
        window=_window(kernels[2:], (), pads, strides, dilations),
        dim_labels=f"bf{digits}_io{digits}->bf{digits}", feature_group_count=(groups,),
    )  # fmt: skip


def _kernel_gradient(call: Call, image: int, output: int, kernel: int, steps: _Steps, groups: int) -> View:
    """The gradient of a convolution's kernel: the image with the gradient as its kernel, summed over the batch."""
    build, (strides, paddings, dilations) = call.build, steps
    sizes, results, kernels = (build.values[each].dims for each in (image, output, kernel))
    spatial = len(kernels) - 2
    pads = []
    for dim in range(spatial):
        reach = (results[2 + dim] - 1) * strides[dim] + 1 + (kernels[2 + dim] - 1) * dilations[dim]
        pads.append((paddings[dim], reach - sizes[2 + dim] - paddings[dim]))
    digits = "".join(map(str, range(spatial)))
    return build.one(
        "convolution", (image, output), kernels, call.dtype,
        window=_window(results[2:], dilations, pads, (), strides),
        dim_labels=f"fb{digits}_io{digits}->fb{digits}", batch_group_count=(groups,),
    )  # fmt: skip


# Pooling --------------------------------------------------------------------------------------------------------------


def max_pool(call: Call) -> tuple[View | None, ...]:
    """The maximum under a window; its positions are not made."""
    source = call.tensor("self")
    start = call.build.number(-inf, call.dtype)
    window = _pooling(call, len(call.build.shape(source)))
    operands = call.build.written(source), start.value
    pooled = call.build.one("reduce-window", operands, call.shape, call.dtype, window=window, combiner="maximum")
    return pooled, None


def max_pool_backward(call: Call) -> View:
    """Every gradient where its maximum was."""
    source, gradient = call.tensor("self"), call.tensor("grad_output")
    start = call.build.number(0, call.dtype)
    window = _pooling(call, len(call.shape))
    operands = call.build.written(source), call.build.written(gradient), start.value
    return call.build.one("select-and-scatter", operands, call.shape, call.dtype, window=window, combiner="add")


def mean_pool(call: Call) -> View:
    """``avg_pool2d`` where padding counts, and ``_adaptive_avg_pool2d`` where every window has the same size."""
    source = call.tensor("self")
    sizes, strides, paddings = _mean_windows(call, call.build.shape(source), call.shape)
    outer = len(call.shape) - len(sizes)
    window = _windows(outer, sizes, strides, paddings)
    operands = call.build.written(source), call.build.number(0, call.dtype).value
    total = call.build.one("reduce-window", operands, call.shape, call.dtype, window=window, combiner="add")
    return call.elementwise("divide", [total, call.number(prod(sizes))])


def mean_pool_backward(call: Call) -> View:
    """Every gradient spread over its window."""
    gradient = call.tensor("grad_output")
    build, reduced = call.build, call.build.shape(gradient)
    sizes, strides, paddings = _mean_windows(call, call.shape, reduced)
    outer = len(call.shape) - len(sizes)
    pads, dilated = [(0, 0, 0)] * outer, list(reduced[:outer])
    for dim, (size, stride, padding) in enumerate(zip(sizes, strides, paddings, strict=True), outer):
        between = (reduced[dim] - 1) * stride + 1
        before = size - 1 - padding
        after = call.shape[dim] + size - 1 - between - before
        pads.append((before, after, stride - 1))
        dilated.append(before + between + after)
    if any(before < 0 or after < 0 for before, after, _ in pads):
        raise NotTranslatedError
    share = build.elementwise("divide", [gradient, call.number(prod(sizes))], reduced, call.dtype)
    operands = build.written(padded(call, share, pads, 0, tuple(dilated))), build.number(0, call.dtype).value
    window = _windows(outer, sizes, [1] * len(sizes), [0] * len(sizes))
    return build.one("reduce-window", operands, call.shape, call.dtype, window=window, combiner="add")


def _mean_windows(call: Call, whole: Dims, reduced: Dims) -> tuple[list[int], list[int], list[int]]:
    """Sizes, strides and paddings of the windows."""
    if "kernel_size" not in call.given:
        if any(size % count for size, count in zip(whole[-2:], reduced[-2:], strict=True)):
            raise NotTranslatedError
        sizes = [size // count for size, count in zip(whole[-2:], reduced[-2:], strict=True)]
        return sizes, sizes, [0, 0]
    sizes = _spread(call.given["kernel_size"], 2)
    strides = _spread(call.given["stride"] or sizes, 2)
    paddings = _spread(call.given["padding"], 2)
    uneven = call.given["ceil_mode"] or (any(paddings) and not call.given["count_include_pad"])
    if uneven or call.given["divisor_override"]:
        raise NotTranslatedError
    return sizes, strides, paddings


def _pooling(call: Call, rank: int) -> str:
    """The window of a maximum."""
    sizes = _spread(call.given["kernel_size"], 2)
    strides = _spread(call.given["stride"] or sizes, 2)
    if call.given["ceil_mode"] or _spread(call.given["dilation"], 2) != [1, 1]:
        raise NotTranslatedError
    return _windows(rank - 2, sizes, strides, _spread(call.given["padding"], 2))


def _windows(outer: int, sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int]) -> str:
    """A window that moves one by one over the first ``outer`` dimensions."""
    ones = [1] * outer
    pads = [(0, 0)] * outer + [(each, each) for each in paddings]
    return _window((*ones, *sizes), (*ones, *strides), pads, (), ())


def _window(
    sizes: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    lhs: Sequence[int],
    rhs: Sequence[int],
) -> str:
    """A window as HLO text has it; what is 1 or 0 everywhere is left out."""
    parts = {"size": "x".join(map(str, sizes))}
    for key, numbers in (("stride", strides), ("lhs_dilate", lhs), ("rhs_dilate", rhs)):
        if set(numbers) - {1}:
            parts[key] = "x".join(map(str, numbers))
    if set(pads) - {(0, 0)}:
        parts["pad"] = "x".join(f"{before}_{after}" for before, after in pads)
    return "{" + " ".join(f"{key}={value}" for key, value in parts.items()) + "}"


def _spread(value: int | Sequence[int], count: int) -> list[int]:
    """One number for each dimension."""
    listed = [value] if isinstance(value, int) else [int(each) for each in value]
    return listed * count if len(listed) == 1 else listed
