"""Chains of convolutions, pooling and linear layers."""

from collections.abc import Sequence
from functools import partial

from dse.sources.zoo.network import Definition, Layers, Tensor, features, image

_VGG_STAGES = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def lenet(net: Layers, x: Tensor) -> Tensor:
    """LeNet-5 (LeCun et al. 1998), as it is taught: two convolutions, pooling, three linear layers."""
    for channels, padding in ((6, 2), (16, 0)):
        x = net.mean_pool(net.conv(x, channels, 5, padding=padding, bias=True).tanh())
    x = x.flatten(1)
    for width in (120, 84):
        x = net.linear(x, width).tanh()
    return net.linear(x, 10)


def alexnet(net: Layers, x: Tensor) -> Tensor:
    """AlexNet in its one-column form (Krizhevsky 2014)."""
    x = net.max_pool(net.conv(x, 64, 11, 4, padding=2, bias=True).relu())
    x = net.max_pool(net.conv(x, 192, 5, bias=True).relu())
    for channels in (384, 256, 256):
        x = net.conv(x, channels, bias=True).relu()
    return net.linear(net.mlp(net.max_pool(x).flatten(1), (4096, 4096)), 1000)


def vgg_stages(net: Layers, x: Tensor, depth: int, normalised: bool = False) -> list[Tensor]:
    """The outputs of VGG's five stages (Simonyan and Zisserman 2015), each pooled."""
    stages = []
    for count, channels in zip(_VGG_STAGES[depth], (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            x = net.conv(x, channels, bias=True)
            x = (net.norm(x) if normalised else x).relu()
        x = net.max_pool(x, 2)
        stages.append(x)
    return stages


def vgg(net: Layers, x: Tensor, depth: int, normalised: bool = False) -> Tensor:
    """VGG with its three linear layers."""
    x = vgg_stages(net, x, depth, normalised)[-1]
    return net.linear(net.mlp(x.flatten(1), (4096, 4096)), 1000)


def network_in_network(net: Layers, x: Tensor) -> Tensor:
    """NIN for CIFAR (Lin et al. 2014): convolutions, each followed by two of 1 × 1, and global pooling."""
    stages: Sequence[tuple[int, tuple[int, int, int]]] = ((5, (192, 160, 96)), (5, (192,) * 3), (3, (192, 192, 10)))
    for stage, (kernel, (first, second, third)) in enumerate(stages):
        x = net.conv(x, first, kernel, bias=True).relu()
        for channels in (second, third):
            x = net.conv(x, channels, 1, bias=True).relu()
        if stage < 2:
            x = net.max_pool(x, 3, 2, 1)
    return net.global_pool(x)


def perceptron(net: Layers, x: Tensor) -> Tensor:
    """A classifier of linear layers, as deep as Cireşan et al. 2010 made it for digits."""
    return net.linear(net.mlp(x, (2500, 2000, 1500, 1000, 500)), 10)


MODELS = (
    Definition("lenet5", "plain", (image(28, 1),), lenet),
    Definition("alexnet", "plain", (image(),), alexnet),
    Definition("vgg11-bn", "plain", (image(),), partial(vgg, depth=11, normalised=True)),
    Definition("vgg16", "plain", (image(),), partial(vgg, depth=16)),
    Definition("vgg19", "plain", (image(),), partial(vgg, depth=19)),
    Definition("nin-cifar", "plain", (image(32),), network_in_network),
    Definition("mlp-digits", "recommendation", (features(784),), perceptron),
)
