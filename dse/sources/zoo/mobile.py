"""Networks for telephones: depthwise convolutions, shuffled groups, squeezed channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from dse.sources.zoo.network import Definition, Layers, Tensor, image

Activation = Callable[[Layers, Tensor], Tensor]


def relu(net: Layers, x: Tensor) -> Tensor:
    """Max(x, 0)."""
    return net.apply(net.functional.relu, x)


def relu6(net: Layers, x: Tensor) -> Tensor:
    """Min(max(x, 0), 6)."""
    return net.apply(net.functional.relu6, x)


def hard_swish(net: Layers, x: Tensor) -> Tensor:
    """X · relu6(x + 3) / 6."""
    return net.apply(net.functional.hardswish, x)


def swish(net: Layers, x: Tensor) -> Tensor:
    """X · sigmoid(x)."""
    return net.apply(net.functional.silu, x)


def rounded(channels: float, divisor: int = 8) -> int:
    """The multiple of ``divisor`` next to ``channels``, never less than 90 % of it."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest if nearest >= 0.9 * channels else nearest + divisor


@dataclass(frozen=True)
class Inverted:
    """Inverted residual blocks (Sandler et al. 2018): inner and outer channels, kernel, stride, squeezed channels."""

    inner: int
    outer: int
    kernel: int = 3
    stride: int = 1
    squeeze: int = 0
    activation: Activation = relu6
    gate: str = "sigmoid"


def inverted(net: Layers, x: Tensor, shape: Inverted) -> Tensor:
    """Widened, convolved within the channels, narrowed; added to the input where the shapes agree."""
    y = x if shape.inner == x.shape[1] else shape.activation(net, net.conv_norm(x, shape.inner, 1))
    y = shape.activation(net, net.conv_norm(y, shape.inner, shape.kernel, shape.stride, groups=shape.inner))
    if shape.squeeze:
        y = net.squeeze_excite(y, shape.squeeze, getattr(net.functional, shape.gate))
    y = net.conv_norm(y, shape.outer, 1)
    return x + y if shape.stride == 1 and x.shape == y.shape else y


def squeezenet(net: Layers, x: Tensor) -> Tensor:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    x = net.max_pool(net.conv(x, 64, 3, 2, padding=0, bias=True).relu())
    for index, (squeezed, expanded) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        x = net.max_pool(x) if index in (2, 4) else x
        x = net.conv(x, squeezed, 1, bias=True).relu()
        parts = (net.conv(x, expanded, kernel, bias=True).relu() for kernel in (1, 3))
        x = net.concatenate(*parts)
    return net.global_pool(net.conv(x, 1000, 1, bias=True).relu())


def mobilenet_v1(net: Layers, x: Tensor) -> Tensor:
    """MobileNet (Howard et al. 2017)."""
    x = net.block(x, 32, 3, 2)
    strides = {128: 2, 256: 2, 512: 2, 1024: 2}
    before = 32
    for channels in (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024):
        stride = strides.get(channels, 1) if channels != before else 1
        x = net.block(net.block(x, x.shape[1], 3, stride, groups=x.shape[1]), channels, 1)
        before = channels
    return net.classify(x)


def mobilenet_v2_stages(net: Layers, x: Tensor) -> list[Tensor]:
    """The outputs of the blocks of MobileNetV2 (Sandler et al. 2018, table 2), the last convolution included."""
    x = relu6(net, net.conv_norm(x, 32, 3, 2))
    stages = []
    for expansion, channels, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            shape = Inverted(x.shape[1] * expansion, channels, stride=stride if block == 0 else 1)
            x = inverted(net, x, shape)
        stages.append(x)
    return [*stages, relu6(net, net.conv_norm(x, 1280, 1))]


def mobilenet_v2(net: Layers, x: Tensor) -> Tensor:
    """MobileNetV2 with its classifier."""
    return net.classify(mobilenet_v2_stages(net, x)[-1])


def mobilenet_v3(net: Layers, x: Tensor) -> Tensor:
    """MobileNetV3-Large (Howard et al. 2019, table 1)."""
    x = hard_swish(net, net.conv_norm(x, 16, 3, 2))
    rows = (
        (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2), (5, 120, 40, 1, 1),
        (5, 120, 40, 1, 1), (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 184, 80, 0, 1),
        (3, 480, 112, 1, 1), (3, 672, 112, 1, 1), (5, 672, 160, 1, 2), (5, 960, 160, 1, 1), (5, 960, 160, 1, 1),
    )  # fmt: skip
    for index, (kernel, inner, outer, squeezed, stride) in enumerate(rows):
        squeeze = rounded(inner / 4) if squeezed else 0
        activation = hard_swish if index >= 6 else relu
        x = inverted(net, x, Inverted(inner, outer, kernel, stride, squeeze, activation, "hardsigmoid"))
    x = net.global_pool(hard_swish(net, net.conv_norm(x, 960, 1)))
    return net.linear(hard_swish(net, net.linear(x, 1280)), 1000)


def _shuffled(x: Tensor, groups: int) -> Tensor:
    """The channels of the groups mixed."""
    batch, channels, height, width = x.shape
    mixed = x.view(batch, groups, channels // groups, height, width).transpose(1, 2)
    return mixed.reshape(batch, channels, height, width)


def shufflenet_v1(net: Layers, x: Tensor) -> Tensor:
    """ShuffleNet of three groups (Zhang et al. 2018)."""
    groups = 3
    x = net.max_pool(net.block(x, 24, 3, 2), 3, 2, 1)
    for channels, count in ((240, 4), (480, 8), (960, 4)):
        for block in range(count):
            stride, outer = (2, channels - x.shape[1]) if block == 0 else (1, channels)
            y = net.block(x, channels // 4, 1, groups=1 if x.shape[1] == 24 else groups)
            y = net.conv_norm(_shuffled(y, groups), channels // 4, 3, stride, groups=channels // 4)
            y = net.conv_norm(y, outer, 1, groups=groups)
            x = (net.concatenate(net.mean_pool(x, 3, 2, 1), y) if block == 0 else x + y).relu()
    return net.classify(x)


def shufflenet_v2(net: Layers, x: Tensor) -> Tensor:
    """ShuffleNetV2 1.0 × (Ma et al. 2018)."""
    x = net.max_pool(net.block(x, 24, 3, 2), 3, 2, 1)
    for channels, count in ((116, 4), (232, 8), (464, 4)):
        for block in range(count):
            half, stride = channels // 2, 2 if block == 0 else 1
            if block == 0:
                left = net.block(net.conv_norm(x, x.shape[1], 3, 2, groups=x.shape[1]), half, 1)
                right = x
            else:
                left, right = x.chunk(2, 1)
            right = net.block(right, half, 1)
            right = net.block(net.conv_norm(right, half, 3, stride, groups=half), half, 1)
            x = _shuffled(net.concatenate(left, right), 2)
    return net.classify(net.block(x, 1024, 1))


def mnasnet(net: Layers, x: Tensor) -> Tensor:
    """MnasNet-B1 (Tan et al. 2019)."""
    x = net.block(x, 32, 3, 2)
    x = net.conv_norm(net.block(x, 32, groups=32), 16, 1)
    for kernel, expansion, channels, count, stride in (
        (3, 3, 24, 3, 2), (5, 3, 40, 3, 2), (5, 6, 80, 3, 2), (3, 6, 96, 2, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            inner = x.shape[1] * expansion
            x = inverted(net, x, Inverted(inner, channels, kernel, stride if block == 0 else 1, 0, relu))
    return net.classify(net.block(x, 1280, 1))


def efficientnet(net: Layers, x: Tensor, width: float, depth: float) -> Tensor:
    """EfficientNet (Tan and Le 2019, table 1), its channels and layers scaled."""
    x = swish(net, net.conv_norm(x, rounded(32 * width), 3, 2))
    stages: Sequence[tuple[int, int, int, int, int]] = (
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    )  # fmt: skip
    for expansion, kernel, channels, count, stride in stages:
        for block in range(ceil(count * depth)):
            entering = x.shape[1]
            shape = Inverted(
                entering * expansion, rounded(channels * width), kernel, stride if block == 0 else 1,
                max(1, entering // 4), swish,
            )  # fmt: skip
            x = inverted(net, x, shape)
    return net.classify(swish(net, net.conv_norm(x, rounded(1280 * width), 1)))


def _ghost(net: Layers, x: Tensor, channels: int, active: bool) -> Tensor:
    """Half of the channels convolved, the other half made of them cheaply (Han et al. 2020)."""
    first = net.conv_norm(x, channels // 2, 1)
    first = first.relu() if active else first
    second = net.conv_norm(first, channels // 2, groups=channels // 2)
    return net.concatenate(first, second.relu() if active else second)


def ghostnet(net: Layers, x: Tensor) -> Tensor:
    """GhostNet (Han et al. 2020, table 7)."""
    x = net.block(x, 16, 3, 2)
    rows = (
        (3, 16, 16, 0, 1), (3, 48, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2), (5, 120, 40, 1, 1),
        (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 1, 1),
        (3, 672, 112, 1, 1), (5, 672, 160, 1, 2), (5, 960, 160, 0, 1), (5, 960, 160, 1, 1), (5, 960, 160, 0, 1),
        (5, 960, 160, 1, 1),
    )  # fmt: skip
    for kernel, inner, outer, squeezed, stride in rows:
        y = _ghost(net, x, inner, active=True)
        if stride > 1:
            y = net.conv_norm(y, inner, kernel, stride, groups=inner)
        if squeezed:
            y = net.squeeze_excite(y, rounded(inner / 4, 4), net.functional.hardsigmoid)
        y = _ghost(net, y, outer, active=False)
        if x.shape != y.shape:
            x = net.conv_norm(net.conv_norm(x, x.shape[1], kernel, stride, groups=x.shape[1]), outer, 1)
        x = x + y
    x = net.global_pool(net.block(x, 960, 1))
    return net.linear(net.linear(x, 1280).relu(), 1000)


MODELS = (
    Definition("squeezenet", "mobile", (image(),), squeezenet),
    Definition("mobilenet-v1", "mobile", (image(),), mobilenet_v1),
    Definition("mobilenet-v2", "mobile", (image(),), mobilenet_v2),
    Definition("mobilenet-v3-large", "mobile", (image(),), mobilenet_v3),
    Definition("shufflenet-v1", "mobile", (image(),), shufflenet_v1),
    Definition("shufflenet-v2", "mobile", (image(),), shufflenet_v2),
    Definition("mnasnet", "mobile", (image(),), mnasnet),
    Definition("efficientnet-b0", "mobile", (image(),), partial(efficientnet, width=1.0, depth=1.0)),
    Definition("efficientnet-b3", "mobile", (image(300),), partial(efficientnet, width=1.2, depth=1.4)),
    Definition("ghostnet", "mobile", (image(),), ghostnet),
)
