"""Residual networks and networks whose layers read all before them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dse.sources.zoo.network import Definition, Layers, Tensor, image


@dataclass(frozen=True)
class Residual:
    """A residual network: blocks of each stage, and what a block is.

    ``width`` of the inner convolution at the first stage, ``groups`` of it; ``parts`` into which Res2Net divides it;
    ``squeeze``: by how much squeeze-and-excitation narrows the channels (0: it is not there); ``dilated``: stages at
    the end that widen their filters instead of halving the picture.
    """

    stages: tuple[int, ...]
    bottleneck: bool = True
    width: int = 64
    groups: int = 1
    parts: int = 1
    squeeze: int = 0
    dilated: int = 0


def residual_stages(net: Layers, x: Tensor, shape: Residual) -> list[Tensor]:
    """The outputs of the stages (He et al. 2016; stride in the 3 × 3 convolution, as implementations have it)."""
    x = net.max_pool(net.block(x, 64, 7, 2), 3, 2, 1)
    stages = []
    for stage, count in enumerate(shape.stages):
        widened = max(0, stage - (len(shape.stages) - 1 - shape.dilated))
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 and not widened else 1
            dilation = 2 ** max(0, widened - (block == 0)) if widened else 1
            x = _block(net, x, shape, 2**stage, stride, dilation)
        stages.append(x)
    return stages


def _block(net: Layers, x: Tensor, shape: Residual, scale: int, stride: int, dilation: int) -> Tensor:
    inner, outer = shape.width * scale, 64 * scale * (4 if shape.bottleneck else 1)
    if shape.bottleneck:
        y = net.block(x, inner, 1)
        y = _parts(net, y, shape, stride) if shape.parts > 1 else _middle(net, y, shape, stride, dilation)
        y = net.conv_norm(y, outer, 1)
    else:
        y = net.conv_norm(net.block(x, outer, 3, stride), outer)
    if shape.squeeze:
        y = net.squeeze_excite(y, outer // shape.squeeze)
    shortcut = x if x.shape == y.shape else net.conv_norm(x, outer, 1, stride)
    return (y + shortcut).relu()


def _middle(net: Layers, y: Tensor, shape: Residual, stride: int, dilation: int) -> Tensor:
    return net.block(y, y.shape[1], 3, stride, groups=shape.groups, dilation=dilation)


def _parts(net: Layers, y: Tensor, shape: Residual, stride: int) -> Tensor:
    """Res2Net (Gao et al. 2019): parts of the channels, each convolved with what the one before it gave."""
    first, *parts = y.chunk(shape.parts, 1)
    outputs = [first if stride == 1 else net.mean_pool(first, 3, stride, 1)]
    before = None
    for part in parts:
        before = net.block(part if before is None or stride > 1 else part + before, part.shape[1], 3, stride)
        outputs.append(before)
    return net.concatenate(*outputs)


def resnet(net: Layers, x: Tensor, shape: Residual) -> Tensor:
    """A residual network with its classifier."""
    return net.classify(residual_stages(net, x, shape)[-1])


def wide_resnet(net: Layers, x: Tensor, depth: int, factor: int) -> Tensor:
    """Wide ResNet for CIFAR (Zagoruyko and Komodakis 2016): normalisation and ReLU before the convolutions."""
    x = net.conv(x, 16)
    for stage, channels in enumerate((16, 32, 64)):
        for block in range((depth - 4) // 6):
            stride = 2 if stage > 0 and block == 0 else 1
            active = net.norm(x).relu()
            y = net.conv(active, channels * factor, 3, stride)
            y = net.conv(net.norm(y).relu(), channels * factor)
            x = y + (x if x.shape == y.shape else net.conv(active, channels * factor, 1, stride))
    return net.classify(net.norm(x).relu(), 100)


def densenet(net: Layers, x: Tensor, blocks: Sequence[int], growth: int, small: bool = False) -> Tensor:
    """DenseNet-BC (Huang et al. 2017); ``small`` has the stem for CIFAR."""
    x = net.conv(x, 2 * growth) if small else net.max_pool(net.block(x, 2 * growth, 7, 2), 3, 2, 1)
    for stage, layers in enumerate(blocks):
        if stage:
            x = net.mean_pool(net.conv(net.norm(x).relu(), x.shape[1] // 2, 1))
        for _ in range(layers):
            y = net.conv(net.norm(x).relu(), 4 * growth, 1)
            x = net.concatenate(x, net.conv(net.norm(y).relu(), growth))
    return net.classify(net.norm(x).relu(), 10 if small else 1000)


RESNET50 = Residual((3, 4, 6, 3))
"""The one that others build on."""


def _resnet(name: str, shape: Residual) -> Definition:
    return Definition(name, "residual", (image(),), partial(resnet, shape=shape))


MODELS = (
    _resnet("resnet18", Residual((2, 2, 2, 2), bottleneck=False)),
    _resnet("resnet34", Residual((3, 4, 6, 3), bottleneck=False)),
    _resnet("resnet50", RESNET50),
    _resnet("resnet101", Residual((3, 4, 23, 3))),
    _resnet("wide-resnet50-2", Residual((3, 4, 6, 3), width=128)),
    _resnet("resnext50-32x4d", Residual((3, 4, 6, 3), width=128, groups=32)),
    _resnet("se-resnet50", Residual((3, 4, 6, 3), squeeze=16)),
    _resnet("res2net50", Residual((3, 4, 6, 3), width=104, parts=4)),
    Definition("wrn-28-10", "residual", (image(32),), partial(wide_resnet, depth=28, factor=10)),
    Definition("densenet121", "dense", (image(),), partial(densenet, blocks=(6, 12, 24, 16), growth=32)),
    Definition("densenet169", "dense", (image(),), partial(densenet, blocks=(6, 12, 32, 32), growth=32)),
    Definition("densenet-bc-100", "dense", (image(32),), partial(densenet, blocks=(16,) * 3, growth=12, small=True)),
)
