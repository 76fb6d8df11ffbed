"""What each ATen operator is in a :class:`~dse.graph.trace.Trace`: one handler an operator, in one table."""

from collections.abc import Mapping
from typing import Any

from dse.importer.torch import views
from dse.importer.torch.recorder import Call, Handler, TorchRecorder, other_operator


def _matmul(recorder: TorchRecorder, call: Call) -> None:
    left, right = call["self"], call["other"] if "other" in call.arguments else call["mat2"]
    recorder.emit("matmul", [left, right], call.outputs)


def _add_matmul(recorder: TorchRecorder, call: Call) -> None:
    """``beta · bias + alpha · (a @ b)``; with a bias of one dimension, one step."""
    left, right = (call["mat1"], call["mat2"]) if "mat1" in call.arguments else (call["batch1"], call["batch2"])
    bias = call["self"]
    if bias.dim() == 1:
        recorder.emit("matmul", [left, right, bias], call.outputs)
        return
    product = recorder.torch.empty_like(call.outputs[0])
    recorder.emit("matmul", [left, right], [product])
    recorder.emit("elementwise", [product, bias], call.outputs, function="add")


def _linear(recorder: TorchRecorder, call: Call) -> None:
    torch, weight, bias = recorder.torch, call["weight"], call["bias"]
    turned = torch.empty_strided(
        (weight.shape[1], weight.shape[0]), (1, weight.shape[1]), dtype=weight.dtype, device="meta"
    )
    recorder.emit("permute", [weight], [turned], axes=(1, 0))
    recorder.emit("matmul", [call["input"], turned, *([] if bias is None else [bias])], call.outputs)


def _grouped_matmul(recorder: TorchRecorder, call: Call) -> None:
    """Each expert's rows times its matrix; the rows are taken as shared out evenly."""
    rows, weight = call["self"], call["mat2"]
    if rows.dim() != 2 or weight.dim() != 3 or rows.shape[0] % weight.shape[0]:
        other_operator(recorder, call)
        return
    experts, width = weight.shape[0], weight.shape[2]
    shared = recorder.torch.empty(experts, rows.shape[0] // experts, rows.shape[1], dtype=rows.dtype, device="meta")
    product = recorder.torch.empty(experts, shared.shape[1], width, dtype=rows.dtype, device="meta")
    recorder.emit("reshape", [rows], [shared])
    recorder.emit("matmul", [shared, weight], [product])
    recorder.emit("reshape", [product], call.outputs)


def _convolution(recorder: TorchRecorder, call: Call) -> None:
    spatial = call["weight"].dim() - 2

    def each(name: str) -> tuple[int, ...]:
        value = call[name]
        if isinstance(value, str):
            return _same_padding(call) if value == "same" else (0,) * spatial
        numbers = (value,) if isinstance(value, int) else tuple(value or (0,))
        return numbers * spatial if len(numbers) == 1 else numbers

    transposed = bool(call["transposed"]) or "transpose" in call.name
    operands = [call["input"], call["weight"], *([] if call["bias"] is None else [call["bias"]])]
    recorder.emit(
        "convolution",
        operands,
        call.outputs,
        stride=each("stride"),
        padding=each("padding"),
        dilation=each("dilation"),
        groups=int(call["groups"]),
        transposed=int(transposed),
    )


def _same_padding(call: Call) -> tuple[int, ...]:
    kernel = call["weight"].shape[2:]
    dilation = call["dilation"]
    steps = tuple(dilation) * (len(kernel) if len(dilation) == 1 else 1)
    return tuple((size - 1) * step // 2 for size, step in zip(kernel, steps, strict=True))


def _elementwise(function: str, *operands: str) -> Handler:
    """Elementwise work over the tensors among ``operands`` (all tensor arguments when none is named)."""

    def handler(recorder: TorchRecorder, call: Call) -> None:
        named = [call[name] for name in operands] if operands else list(call.arguments.values())
        tensors = [item for item in named if isinstance(item, recorder.torch.Tensor)]
        recorder.emit("elementwise", tensors, call.outputs, function=function)

    return handler


def _with_scalar(function: str, scalar_function: str) -> Handler:
    """An operator of two operands of which the second may be a number."""

    def handler(recorder: TorchRecorder, call: Call) -> None:
        tensors: list[Any] = []
        numbers: list[Any] = []
        for name in ("self", "other"):
            item = call[name]
            (tensors if isinstance(item, recorder.torch.Tensor) else numbers).append(item)
        if not numbers:
            recorder.emit("elementwise", tensors, call.outputs, function=function)
        else:
            recorder.emit(
                "elementwise", tensors, call.outputs, function=scalar_function, operand=_operand(function, numbers[0])
            )

    return handler


def _operand(function: str, number: Any) -> float:
    value = float(number)
    if function == "divide":
        return 1 / value if value else 0.0
    return -value if function == "subtract" else value


def _power(recorder: TorchRecorder, call: Call) -> None:
    base, exponent = call["self"], call["exponent"]
    if call.name == "square":
        exponent = 2
    if isinstance(exponent, recorder.torch.Tensor) or not isinstance(base, recorder.torch.Tensor):
        tensors = [item for item in (base, exponent) if isinstance(item, recorder.torch.Tensor)]
        recorder.emit("elementwise", tensors, call.outputs, function="power", operand=0.0)
    elif float(exponent) in (0.5, -0.5):
        recorder.emit("elementwise", [base], call.outputs, function="sqrt" if exponent > 0 else "rsqrt")
    else:
        recorder.emit("elementwise", [base], call.outputs, function="power", operand=float(exponent))


def _softmax(recorder: TorchRecorder, call: Call) -> None:
    recorder.emit("softmax", [call["self"]], call.outputs, axis=views.axis_of(call["self"], call["dim"]))


def _layer_norm(recorder: TorchRecorder, call: Call) -> None:
    source, count = call["input"], len(call["normalized_shape"])
    axes = tuple(range(source.dim() - count, source.dim()))
    operands = [item for item in (source, call["weight"], call["bias"]) if item is not None]
    recorder.emit("rms_norm" if "rms" in call.name else "layer_norm", operands, call.outputs[:1], axes=axes)


def _batch_norm(recorder: TorchRecorder, call: Call) -> None:
    operands = [item for item in (call["input"], call["weight"], call["bias"]) if item is not None]
    recorder.emit("batch_norm", operands, call.outputs[:1])


def _group_norm(recorder: TorchRecorder, call: Call) -> None:
    operands = [item for item in (call["input"], call["weight"], call["bias"]) if item is not None]
    recorder.emit("group_norm", operands, call.outputs[:1], groups=int(call["num_groups"]))


def _dropout(recorder: TorchRecorder, call: Call) -> None:
    probability = float(call["p"])
    if probability == 0 or call["train"] is False:
        recorder.same(call["input"], call.outputs[0])
    else:
        recorder.emit("dropout", [call["input"]], call.outputs[:1], probability=probability)


def _embedding(recorder: TorchRecorder, call: Call) -> None:
    recorder.emit("embedding", [call["weight"], call["indices"]], call.outputs)


def _cross_entropy(recorder: TorchRecorder, call: Call) -> None:
    axis = 0 if call["self"].dim() == 1 else 1
    recorder.emit("cross_entropy", [call["self"], call["target"]], call.outputs, axis=axis, participants=1)


def _reduction(function: str) -> Handler:
    def handler(recorder: TorchRecorder, call: Call) -> None:
        if "other" in call.arguments:
            recorder.emit("elementwise", [call["self"], call["other"]], call.outputs, function=_larger(call.name))
            return
        source, given = call["self"], call["dim"]
        if isinstance(given, recorder.torch.Tensor):
            given = None
        listed = range(source.dim()) if given is None or given == [] else given
        axes = tuple(views.axis_of(source, axis) for axis in ([listed] if isinstance(listed, int) else listed))
        keep = int(bool(call["keepdim"]))
        recorder.emit("reduction", [source], call.outputs[:1], function=function, axes=axes, keep=keep)
        for indices in call.outputs[1:]:
            recorder.emit("reduction", [source], [indices], function=function, axes=axes, keep=keep)

    return handler


def _larger(name: str) -> str:
    return "maximum" if name == "max" else "minimum"


def _pooling(function: str) -> Handler:
    def handler(recorder: TorchRecorder, call: Call) -> None:
        spatial = int(call.name.removesuffix("_with_indices")[-2])

        def each(name: str, missing: tuple[int, ...]) -> tuple[int, ...]:
            value = call[name]
            numbers = (value,) if isinstance(value, int) else tuple(value or missing)
            return numbers * spatial if len(numbers) == 1 else numbers

        kernel = each("kernel_size", (1,))
        recorder.emit(
            "pooling",
            [call["self"]],
            call.outputs[:1],
            function=function,
            kernel=kernel,
            stride=each("stride", kernel),
            padding=each("padding", (0,)),
        )

    return handler


def _adaptive_pooling(function: str) -> Handler:
    def handler(recorder: TorchRecorder, call: Call) -> None:
        source, output = call["self"], call.outputs[0]
        spatial = int(call.name[-2])
        inner, outer = source.shape[-spatial:], output.shape[-spatial:]
        stride = tuple(max(1, size // parts) for size, parts in zip(inner, outer, strict=True))
        recorder.emit(
            "pooling", [source], [output], function=function, kernel=stride, stride=stride, padding=(0,) * spatial
        )

    return handler


def _constant(recorder: TorchRecorder, call: Call) -> None:
    recorder.emit("constant", [], call.outputs)


_ROWS: tuple[tuple[Handler, str], ...] = (
    (_matmul, "mm bmm matmul"),
    (_add_matmul, "addmm baddbmm"),
    (_linear, "linear"),
    (_grouped_matmul, "_grouped_mm grouped_mm"),
    (_convolution, "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d"),
    (_with_scalar("add", "add_constant"), "add"),
    (_with_scalar("subtract", "add_constant"), "sub subtract rsub"),
    (_with_scalar("multiply", "scale"), "mul multiply"),
    (_with_scalar("divide", "scale"), "div divide true_divide"),
    (_elementwise("divide"), "reciprocal floor_divide remainder fmod"),
    (_elementwise("negate"), "neg negative"),
    (_elementwise("relu"), "relu relu6 leaky_relu hardtanh threshold prelu rrelu"),
    (_elementwise("gelu"), "gelu"),
    (_elementwise("silu"), "silu hardswish mish"),
    (_elementwise("sigmoid"), "sigmoid hardsigmoid"),
    (_elementwise("tanh"), "tanh"),
    (_elementwise("exp"), "exp exp2 expm1 elu celu selu"),
    (_elementwise("log"), "log log2 log10 log1p softplus logsigmoid log_sigmoid"),
    (_elementwise("sqrt"), "sqrt"),
    (_elementwise("rsqrt"), "rsqrt"),
    (_elementwise("erf"), "erf"),
    (_power, "pow square"),
    (_elementwise("abs"), "abs sign sgn floor ceil round trunc"),
    (_elementwise("sin"), "sin"),
    (_elementwise("cos"), "cos"),
    (_elementwise("maximum"), "maximum fmax"),
    (_elementwise("minimum"), "minimum fmin"),
    (_elementwise("clamp"), "clamp clamp_min clamp_max clip"),
    (
        _elementwise("compare"),
        "eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not"
        " bitwise_xor __and__ __or__ __xor__ isnan isinf isfinite isin",
    ),
    (_elementwise("select"), "where"),
    (_elementwise("mask", "self", "mask"), "masked_fill tril triu"),
    (_softmax, "softmax _softmax log_softmax _log_softmax"),
    (_layer_norm, "layer_norm native_layer_norm rms_norm _fused_rms_norm"),
    (_batch_norm, "batch_norm native_batch_norm _native_batch_norm_legit"),
    (_group_norm, "group_norm native_group_norm"),
    (_dropout, "dropout native_dropout feature_dropout alpha_dropout"),
    (_embedding, "embedding"),
    (_cross_entropy, "cross_entropy_loss"),
    (_reduction("sum"), "sum"),
    (_reduction("mean"), "mean"),
    (_reduction("max"), "max amax argmax min amin argmin any all"),
    (_pooling("max"), "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices"),
    (_pooling("mean"), "avg_pool1d avg_pool2d avg_pool3d"),
    (_adaptive_pooling("mean"), "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
    (_adaptive_pooling("max"), "adaptive_max_pool1d adaptive_max_pool2d"),
    (
        views.reshape,
        "view _unsafe_view reshape flatten unflatten squeeze unsqueeze view_as reshape_as _reshape_alias ravel",
    ),
    (views.permute, "transpose t permute numpy_T mT swapaxes swapdims"),
    (views.expand, "expand expand_as broadcast_to"),
    (views.slice_, "slice"),
    (views.select, "select"),
    (views.parts, "split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk unsafe_split_with_sizes"),
    (views.unbind, "unbind"),
    (views.concatenate, "cat concat concatenate"),
    (views.gather, "gather index_select index"),
    (views.cast, "to _to_copy type_as convert_element_type"),
    (views.copy, "pad constant_pad_nd repeat repeat_interleave roll flip reflection_pad2d replication_pad2d"),
    (
        views.scattered,
        "index_put scatter scatter_add slice_scatter select_scatter index_copy index_add masked_scatter index_fill",
    ),
    (views.layout, "contiguous clone"),
    (views.assigned, "copy"),
    (views.alias, "alias detach lift_fresh lift view_of"),
    (
        _constant,
        "arange zeros ones full empty eye linspace rand randn randint randperm scalar_tensor zeros_like ones_like"
        " full_like empty_like rand_like randn_like new_zeros new_ones new_full new_empty bernoulli empty_strided"
        " normal normal_functional uniform zero fill tril_indices triu_indices new_empty_strided",
    ),
)
"""What records each of PyTorch's operators; the names of one row are one string."""

HANDLERS: Mapping[str, Handler] = {name: handler for handler, names in _ROWS for name in names.split()}
"""Handlers by the operator's name, without namespace and overload."""
