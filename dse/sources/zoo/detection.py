"""Detectors of objects in pictures, up to their raw outputs."""

from collections.abc import Sequence

from dse.sources.zoo.mobile import mobilenet_v2_stages
from dse.sources.zoo.network import Definition, Layers, Size, Tensor, image
from dse.sources.zoo.pictures import pyramid
from dse.sources.zoo.plain import vgg_stages
from dse.sources.zoo.residual import RESNET50, residual_stages


def _leaky(net: Layers, x: Tensor, channels: int, kernel: Size = 3, stride: int = 1) -> Tensor:
    return net.apply(net.functional.leaky_relu, net.conv_norm(x, channels, kernel, stride), 0.1)


def _boxes(net: Layers, x: Tensor, numbers: int) -> Tensor:
    """A convolution that gives numbers for each place, as rows."""
    return net.conv(x, numbers, bias=True).permute(0, 2, 3, 1).flatten(1)


def ssd300(net: Layers, x: Tensor) -> Tensor:
    """SSD300 on VGG-16 (Liu et al. 2016), with the picture's size padded to 304."""
    stages = vgg_stages(net, x, 16)
    x = net.conv(stages[-1], 1024, dilation=6, bias=True).relu()
    maps = [stages[-2], net.conv(x, 1024, 1, bias=True).relu()]
    for narrow, channels, stride in ((256, 512, 2), (128, 256, 2), (128, 256, 1)):
        x = net.conv(maps[-1], narrow, 1, bias=True).relu()
        maps.append(net.conv(x, channels, 3, stride, padding=stride - 1, bias=True).relu())
    parts = [_boxes(net, level, anchors * 25) for level, anchors in zip(maps, (4, 6, 6, 6, 4), strict=True)]
    return net.concatenate(*parts)


def ssdlite(net: Layers, x: Tensor) -> Tensor:
    """SSDLite on MobileNetV2 (Sandler et al. 2018, section 6.2)."""
    stages = mobilenet_v2_stages(net, x)
    maps = [stages[4], stages[-1]]
    for channels in (512, 256, 256, 128):
        y = net.functional.relu6(net.conv_norm(maps[-1], channels // 2, 1))
        y = net.functional.relu6(net.conv_norm(y, channels // 2, 3, 2, groups=channels // 2))
        maps.append(net.functional.relu6(net.conv_norm(y, channels, 1)))
    parts = []
    for level in maps:
        for numbers in (6 * 4, 6 * 91):
            y = net.functional.relu6(net.conv_norm(level, level.shape[1], groups=level.shape[1]))
            parts.append(net.conv(y, numbers, 1, bias=True).permute(0, 2, 3, 1).flatten(1))
    return net.concatenate(*parts)


def yolo_v1(net: Layers, x: Tensor) -> Tensor:
    """YOLO (Redmon et al. 2016, figure 3)."""

    def convolved(x: Tensor, *layers: tuple[int, int, int]) -> Tensor:
        for channels, kernel, stride in layers:
            x = net.functional.leaky_relu(net.conv(x, channels, kernel, stride, bias=True), 0.1)
        return x

    x = net.max_pool(convolved(x, (64, 7, 2)), 2)
    x = net.max_pool(convolved(x, (192, 3, 1)), 2)
    x = net.max_pool(convolved(x, (128, 1, 1), (256, 3, 1), (256, 1, 1), (512, 3, 1)), 2)
    x = convolved(x, *((256, 1, 1), (512, 3, 1)) * 4)
    x = net.max_pool(convolved(x, (512, 1, 1), (1024, 3, 1)), 2)
    x = convolved(x, *((512, 1, 1), (1024, 3, 1)) * 2, (1024, 3, 1), (1024, 3, 2), (1024, 3, 1), (1024, 3, 1))
    return net.linear(net.functional.leaky_relu(net.linear(x.flatten(1), 4096), 0.1), 7 * 7 * 30)


def yolo_v2(net: Layers, x: Tensor) -> Tensor:
    """YOLOv2 on Darknet-19 (Redmon and Farhadi 2017), finer features passed through."""
    for channels in (32, 64):
        x = net.max_pool(_leaky(net, x, channels), 2)
    stages: Sequence[tuple[int, int]] = ((128, 3), (256, 3), (512, 5), (1024, 5))
    fine = x
    for channels, layers in stages:
        for layer in range(layers):
            x = _leaky(net, x, channels if layer % 2 == 0 else channels // 2, 3 if layer % 2 == 0 else 1)
        if channels < 1024:
            fine, x = x, net.max_pool(x, 2)
    x = _leaky(net, _leaky(net, x, 1024), 1024)
    passed = net.functional.pixel_unshuffle(_leaky(net, fine, 64, 1), 2)
    return net.conv(_leaky(net, net.concatenate(passed, x), 1024), 5 * 85, 1, bias=True)


def yolo_v3(net: Layers, x: Tensor) -> tuple[Tensor, ...]:
    """YOLOv3 on Darknet-53 (Redmon and Farhadi 2018)."""
    x = _leaky(net, x, 32)
    stages = []
    for channels, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = _leaky(net, x, channels, 3, 2)
        for _ in range(count):
            x = x + _leaky(net, _leaky(net, x, channels // 2, 1), channels)
        stages.append(x)
    boxes = []
    for skip in (None, stages[3], stages[2]):
        if skip is not None:
            x = net.concatenate(net.resize(_leaky(net, x, skip.shape[1] // 2, 1)), skip)
        channels = 512 if skip is None else skip.shape[1] // 2
        for layer in range(5):
            x = _leaky(net, x, channels * (1 + layer % 2), 1 + 2 * (layer % 2))
        boxes.append(net.conv(_leaky(net, x, 2 * channels), 255, 1, bias=True))
    return tuple(boxes)


def retinanet(net: Layers, x: Tensor) -> Tensor:
    """RetinaNet on ResNet-50 (Lin et al. 2017); the weights of its two heads are its own at every level here."""
    levels = pyramid(net, residual_stages(net, x, RESNET50)[1:])
    sixth = net.conv(levels[-1], 256, 3, 2, bias=True)
    levels += [sixth, net.conv(sixth.relu(), 256, 3, 2, bias=True)]
    parts: list[Tensor] = []
    for numbers in (9 * 80, 9 * 4):
        for level in levels:
            y = level
            for _ in range(4):
                y = net.conv(y, 256, bias=True).relu()
            parts.append(_boxes(net, y, numbers))
    return net.concatenate(*parts)


MODELS = (
    Definition("ssd300-vgg16", "detection", (image(304),), ssd300),
    Definition("ssdlite-mobilenet-v2", "detection", (image(320),), ssdlite),
    Definition("yolo-v1", "detection", (image(448),), yolo_v1),
    Definition("yolo-v2", "detection", (image(416),), yolo_v2),
    Definition("yolo-v3", "detection", (image(416),), yolo_v3),
    Definition("retinanet-resnet50", "detection", (image(512),), retinanet),
)
