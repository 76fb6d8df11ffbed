"""Networks of parallel branches: Inception v1 to v4, Inception-ResNet, Xception."""

from dse.sources.zoo.network import Definition, Layers, Size, Tensor, image


def _row(net: Layers, x: Tensor, *layers: tuple[int, Size]) -> Tensor:
    """Convolutions one behind the other, each (channels, kernel)."""
    for channels, kernel in layers:
        x = net.block(x, channels, kernel)
    return x


def _mean(net: Layers, x: Tensor, channels: int) -> Tensor:
    return net.block(net.mean_pool(x, 3, 1, 1), channels, 1)


def googlenet(net: Layers, x: Tensor) -> Tensor:
    """GoogLeNet (Szegedy et al. 2015), without the classifiers that only help training."""
    x = net.max_pool(net.conv(x, 64, 7, 2, bias=True).relu(), 3, 2, 1)
    x = net.conv(net.conv(x, 64, 1, bias=True).relu(), 192, bias=True).relu()
    stages = (
        ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
        (
            (192, 96, 208, 16, 48, 64),
            (160, 112, 224, 24, 64, 64),
            (128, 128, 256, 24, 64, 64),
            (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128),
        ),
        ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
    )
    for modules in stages:
        x = net.max_pool(x, 3, 2, 1)
        for one, narrow3, three, narrow5, five, pooled in modules:
            x = net.concatenate(
                net.conv(x, one, 1, bias=True).relu(),
                net.conv(net.conv(x, narrow3, 1, bias=True).relu(), three, bias=True).relu(),
                net.conv(net.conv(x, narrow5, 1, bias=True).relu(), five, 5, bias=True).relu(),
                net.conv(net.max_pool(x, 3, 1, 1), pooled, 1, bias=True).relu(),
            )
    return net.classify(x)


def inception_v2(net: Layers, x: Tensor) -> Tensor:
    """BN-Inception (Ioffe and Szegedy 2015, figure 5)."""
    x = net.max_pool(net.block(x, 64, 7, 2), 3, 2, 1)
    x = net.max_pool(net.block(net.block(x, 64, 1), 192), 3, 2, 1)
    modules: tuple[tuple[int, ...], ...] = (
        (64, 64, 64, 64, 96, 32),
        (64, 64, 96, 64, 96, 64),
        (128, 160, 64, 96),
        (224, 64, 96, 96, 128, 128),
        (192, 96, 128, 96, 128, 128),
        (160, 128, 160, 128, 160, 96),
        (96, 128, 192, 160, 192, 96),
        (128, 192, 192, 256),
        (352, 192, 320, 160, 224, 128),
        (352, 192, 320, 192, 224, 128),
    )
    for sizes in modules:
        if len(sizes) == 4:
            narrow, wide, narrow2, wide2 = sizes
            left = net.block(net.block(x, narrow, 1), wide, 3, 2)
            right = net.block(_row(net, x, (narrow2, 1), (wide2, 3)), wide2, 3, 2)
            x = net.concatenate(left, right, net.max_pool(x, 3, 2, 1))
        else:
            one, narrow, wide, narrow2, wide2, pooled = sizes
            x = net.concatenate(
                net.block(x, one, 1),
                _row(net, x, (narrow, 1), (wide, 3)),
                _row(net, x, (narrow2, 1), (wide2, 3), (wide2, 3)),
                _mean(net, x, pooled),
            )
    return net.classify(x)


def inception_v3(net: Layers, x: Tensor) -> Tensor:
    """Inception v3 (Szegedy et al. 2016) at 299 × 299."""
    x = net.block(net.block(x, 32, 3, 2, padding=0), 32, 3, padding=0)
    x = net.block(net.max_pool(net.block(x, 64)), 80, 1)
    x = net.max_pool(net.block(x, 192, 3, padding=0))
    for pooled in (32, 64, 64):
        x = net.concatenate(
            net.block(x, 64, 1), _row(net, x, (48, 1), (64, 5)), _row(net, x, (64, 1), (96, 3), (96, 3)),
            _mean(net, x, pooled),
        )  # fmt: skip
    double = _row(net, x, (64, 1), (96, 3))
    parts = net.block(x, 384, 3, 2, padding=0), net.block(double, 96, 3, 2, padding=0), net.max_pool(x)
    x = net.concatenate(*parts)
    for c in (128, 160, 160, 192):
        long: tuple[tuple[int, Size], ...] = ((c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7)))
        branch = _row(net, x, (c, 1), (c, (1, 7)), (192, (7, 1)))
        x = net.concatenate(net.block(x, 192, 1), branch, _row(net, x, *long), _mean(net, x, 192))
    first = net.block(net.block(x, 192, 1), 320, 3, 2, padding=0)
    second = net.block(_row(net, x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, 2, padding=0)
    x = net.concatenate(first, second, net.max_pool(x))
    for _ in range(2):
        narrow, double = net.block(x, 384, 1), _row(net, x, (448, 1), (384, 3))
        x = net.concatenate(
            net.block(x, 320, 1), *_fork(net, narrow, 384), *_fork(net, double, 384), _mean(net, x, 192)
        )
    return net.classify(x)


def _fork(net: Layers, x: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Two convolutions of the same input, along either axis."""
    return net.block(x, channels, (1, 3)), net.block(x, channels, (3, 1))


def _stem_v4(net: Layers, x: Tensor) -> Tensor:
    """The stem of Inception v4 (Szegedy et al. 2017, figure 3), [B, 384, 35, 35]."""
    x = net.block(net.block(net.block(x, 32, 3, 2, padding=0), 32, 3, padding=0), 64)
    x = net.concatenate(net.max_pool(x), net.block(x, 96, 3, 2, padding=0))
    left = net.block(net.block(x, 64, 1), 96, 3, padding=0)
    right = net.block(_row(net, x, (64, 1), (64, (7, 1)), (64, (1, 7))), 96, 3, padding=0)
    x = net.concatenate(left, right)
    return net.concatenate(net.block(x, 192, 3, 2, padding=0), net.max_pool(x))


def inception_v4(net: Layers, x: Tensor) -> Tensor:
    """Inception v4 (Szegedy et al. 2017): 4 modules A, 7 B, 3 C, and two reductions."""
    x = _stem_v4(net, x)
    for _ in range(4):
        long = _row(net, x, (64, 1), (96, 3), (96, 3))
        x = net.concatenate(_mean(net, x, 96), net.block(x, 96, 1), _row(net, x, (64, 1), (96, 3)), long)
    left, right = net.block(x, 384, 3, 2, padding=0), _row(net, x, (192, 1), (224, 3))
    x = net.concatenate(net.max_pool(x), left, net.block(right, 256, 3, 2, padding=0))
    for _ in range(7):
        row = _row(net, x, (192, 1), (224, (1, 7)), (256, (7, 1)))
        long = _row(net, x, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1)))
        x = net.concatenate(_mean(net, x, 128), net.block(x, 384, 1), row, long)
    left = net.block(net.block(x, 192, 1), 192, 3, 2, padding=0)
    right = net.block(_row(net, x, (256, 1), (256, (1, 7)), (320, (7, 1))), 320, 3, 2, padding=0)
    x = net.concatenate(net.max_pool(x), left, right)
    for _ in range(3):
        narrow, long = net.block(x, 384, 1), _row(net, x, (384, 1), (448, (1, 3)), (512, (3, 1)))
        x = net.concatenate(_mean(net, x, 256), net.block(x, 256, 1), *_fork(net, narrow, 256), *_fork(net, long, 256))
    return net.classify(x)


def inception_resnet(net: Layers, x: Tensor) -> Tensor:
    """Inception-ResNet v1 (Szegedy et al. 2017): 5 modules A, 10 B, 5 C, each added to its input."""
    x = net.block(net.block(net.block(x, 32, 3, 2, padding=0), 32, 3, padding=0), 64)
    x = net.block(net.block(net.max_pool(x), 80, 1), 192, 3, padding=0)
    x = net.block(x, 256, 3, 2, padding=0)
    for _ in range(5):
        parts = net.block(x, 32, 1), _row(net, x, (32, 1), (32, 3)), _row(net, x, (32, 1), (32, 3), (32, 3))
        x = _added(net, x, *parts)
    left, right = net.block(x, 384, 3, 2, padding=0), _row(net, x, (192, 1), (192, 3))
    x = net.concatenate(net.max_pool(x), left, net.block(right, 256, 3, 2, padding=0))
    for _ in range(10):
        x = _added(net, x, net.block(x, 128, 1), _row(net, x, (128, 1), (128, (1, 7)), (128, (7, 1))))
    branches = [net.block(net.block(x, 256, 1), channels, 3, 2, padding=0) for channels in (384, 256)]
    long = net.block(_row(net, x, (256, 1), (256, 3)), 256, 3, 2, padding=0)
    x = net.concatenate(net.max_pool(x), *branches, long)
    for _ in range(5):
        x = _added(net, x, net.block(x, 192, 1), _row(net, x, (192, 1), (192, (1, 3)), (192, (3, 1))))
    return net.classify(x)


def _added(net: Layers, x: Tensor, *parts: Tensor) -> Tensor:
    return (x + net.conv(net.concatenate(*parts), x.shape[1], 1, bias=True) * 0.17).relu()


def separable(net: Layers, x: Tensor, channels: int, dilation: int = 1) -> Tensor:
    """A convolution within the channels, one across them, and normalisation."""
    return net.conv_norm(net.conv(x, x.shape[1], groups=x.shape[1], dilation=dilation), channels, 1)


def xception(net: Layers, x: Tensor) -> Tensor:
    """Xception (Chollet 2017) at 299 × 299."""
    x = net.block(net.block(x, 32, 3, 2, padding=0), 64, 3, padding=0)
    for channels in (128, 256, 728):
        shortcut = net.conv_norm(x, channels, 1, 2)
        y = separable(net, x if channels == 128 else x.relu(), channels)
        x = net.max_pool(separable(net, y.relu(), channels), 3, 2, 1) + shortcut
    for _ in range(8):
        y = x
        for _ in range(3):
            y = separable(net, y.relu(), 728)
        x = x + y
    shortcut = net.conv_norm(x, 1024, 1, 2)
    y = separable(net, separable(net, x.relu(), 728).relu(), 1024)
    x = net.max_pool(y, 3, 2, 1) + shortcut
    for channels in (1536, 2048):
        x = separable(net, x, channels).relu()
    return net.classify(x)


MODELS = (
    Definition("googlenet", "inception", (image(),), googlenet),
    Definition("inception-v2", "inception", (image(),), inception_v2),
    Definition("inception-v3", "inception", (image(299),), inception_v3),
    Definition("inception-v4", "inception", (image(299),), inception_v4),
    Definition("inception-resnet-v1", "inception", (image(299),), inception_resnet),
    Definition("xception", "inception", (image(299),), xception),
)
