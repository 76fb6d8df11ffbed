"""From pictures to pictures: segmentation, key points, generation and restoration."""

from dse.sources.zoo.network import Define, Definition, Input, Layers, Tensor, features, image
from dse.sources.zoo.plain import vgg_stages
from dse.sources.zoo.residual import RESNET50, Residual, residual_stages


def unet(net: Layers, x: Tensor) -> Tensor:
    """U-Net (Ronneberger et al. 2015), padded so that sizes are kept."""
    skips = []
    for channels in (64, 128, 256, 512):
        x = net.block(net.block(x, channels), channels)
        skips.append(x)
        x = net.max_pool(x, 2)
    x = net.block(net.block(x, 1024), 1024)
    for skip in reversed(skips):
        x = net.concatenate(skip, net.deconv(x, skip.shape[1], 2, 2, 0))
        x = net.block(net.block(x, skip.shape[1]), skip.shape[1])
    return net.conv(x, 2, 1, bias=True)


def segnet(net: Layers, x: Tensor) -> Tensor:
    """SegNet (Badrinarayanan et al. 2017): VGG-16 and its mirror, which unpools where the maxima were."""
    stages, places = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), []
    for count, channels in stages:
        for _ in range(count):
            x = net.block(x, channels)
        x, indices = net.functional.max_pool2d(x, 2, 2, return_indices=True)
        places.append(indices)
    narrowed = (12, 64, 128, 256, 512)
    for (count, channels), outer, indices in reversed(list(zip(stages, narrowed, places, strict=True))):
        x = net.functional.max_unpool2d(x, indices, 2, 2)
        for layer in range(count):
            x = net.block(x, outer if layer == count - 1 else channels)
    return x


def fcn8(net: Layers, x: Tensor) -> Tensor:
    """FCN-8s on VGG-16 (Long et al. 2015), padded so that sizes are kept."""
    *_, third, fourth, fifth = vgg_stages(net, x, 16)
    x = net.conv(fifth, 4096, 7, bias=True).relu()
    x = net.conv(net.conv(x, 4096, 1, bias=True).relu(), 21, 1, bias=True)
    for skip in (fourth, third):
        x = net.deconv(x, 21) + net.conv(skip, 21, 1, bias=True)
    return net.deconv(x, 21, 16, 8, 4)


def deeplab(net: Layers, x: Tensor) -> Tensor:
    """DeepLabv3 on ResNet-50 (Chen et al. 2017) at output stride 16."""
    side = x.shape[-1]
    x = residual_stages(net, x, Residual((3, 4, 6, 3), dilated=1))[-1]
    pooled = net.functional.adaptive_avg_pool2d(x, 1)
    branches = [net.block(x, 256, 1), *(net.block(x, 256, 3, dilation=rate) for rate in (6, 12, 18))]
    branches.append(net.block(pooled, 256, 1).expand(branches[0].shape))
    x = net.block(net.block(net.concatenate(*branches), 256, 1), 256)
    return net.resize(net.conv(x, 21, 1, bias=True), side // x.shape[-1], "bilinear")


def pspnet(net: Layers, x: Tensor) -> Tensor:
    """PSPNet on ResNet-50 (Zhao et al. 2017) at output stride 8."""
    x = residual_stages(net, x, Residual((3, 4, 6, 3), dilated=2))[-1]
    size = (int(x.shape[2]), int(x.shape[3]))
    pyramid = [x]
    for bins in (1, 2, 3, 6):
        part = net.block(net.functional.adaptive_avg_pool2d(x, bins), 512, 1)
        pyramid.append(net.functional.interpolate(part, size=size, mode="nearest"))
    x = net.conv(net.block(net.concatenate(*pyramid), 512), 150, 1, bias=True)
    return net.resize(x, 8)


def linknet(net: Layers, x: Tensor) -> Tensor:
    """LinkNet on ResNet-18 (Chaurasia and Culurciello 2017)."""
    stages = residual_stages(net, x, Residual((2, 2, 2, 2), bottleneck=False))
    x = stages[-1]
    for skip in (*stages[-2::-1], None):
        outer = 64 if skip is None else skip.shape[1]
        y = net.norm(net.deconv(net.block(x, x.shape[1] // 4, 1), x.shape[1] // 4)).relu()
        x = net.block(y, outer, 1)
        x = x if skip is None else x + skip
    x = net.block(net.norm(net.deconv(x, 32)).relu(), 32)
    return net.conv(x, 19, 1, bias=True)


def pyramid(net: Layers, stages: list[Tensor]) -> list[Tensor]:
    """A feature pyramid (Lin et al. 2017) over stages of 1/8, 1/16 and so on; finest first."""
    levels: list[Tensor] = []
    for stage in reversed(stages):
        lateral = net.conv(stage, 256, 1, bias=True)
        levels.insert(0, lateral if not levels else lateral + net.resize(levels[0]))
    return [net.conv(level, 256, bias=True) for level in levels]


def semantic_fpn(net: Layers, x: Tensor) -> Tensor:
    """Semantic FPN on ResNet-50 (Kirillov et al. 2019)."""
    levels = pyramid(net, residual_stages(net, x, RESNET50))
    merged = []
    for index, level in enumerate(levels):
        y = net.group_norm(net.conv(level, 128), 32).relu()
        for _ in range(index):
            y = net.resize(y)
            y = net.group_norm(net.conv(y, 128), 32).relu() if index > 1 else y
        merged.append(y)
    total = merged[0]
    for y in merged[1:]:
        total = total + y
    return net.resize(net.conv(total, 19, 1, bias=True), 4)


def hourglass(net: Layers, x: Tensor) -> Tensor:
    """A stack of two hourglasses for key points (Newell et al. 2016)."""
    x = net.max_pool(_bottleneck(net, net.block(x, 64, 7, 2), 128), 2, 2)
    x = _bottleneck(net, _bottleneck(net, x, 128), 256)
    heats = x
    for stack in range(2):
        y = net.block(_bottleneck(net, _hour(net, x, 4), 256), 256, 1)
        heats = net.conv(y, 16, 1, bias=True)
        if stack == 0:
            x = x + net.conv(y, 256, 1, bias=True) + net.conv(heats, 256, 1, bias=True)
    return heats


def _hour(net: Layers, x: Tensor, depth: int) -> Tensor:
    """Half the size, ``depth`` times over, and back, with a branch at each size."""
    above = _bottleneck(net, x, 256)
    below = _bottleneck(net, net.max_pool(x, 2, 2), 256)
    below = _hour(net, below, depth - 1) if depth > 1 else _bottleneck(net, below, 256)
    return above + net.resize(_bottleneck(net, below, 256))


def _bottleneck(net: Layers, x: Tensor, channels: int) -> Tensor:
    y = net.conv(net.norm(x).relu(), channels // 2, 1)
    y = net.conv(net.norm(y).relu(), channels // 2)
    y = net.conv(net.norm(y).relu(), channels, 1)
    return y + (x if x.shape == y.shape else net.conv(x, channels, 1))


def autoencoder(net: Layers, x: Tensor) -> Tensor:
    """A convolutional autoencoder of four halvings (Masci et al. 2011, with today's layers)."""
    for channels in (32, 64, 128, 256):
        x = net.block(x, channels, 4, 2, padding=1)
    for channels in (128, 64, 32):
        x = net.norm(net.deconv(x, channels)).relu()
    return net.deconv(x, 3).sigmoid()


def variational(net: Layers, x: Tensor) -> Tensor:
    """A convolutional variational autoencoder (Kingma and Welling 2014) with one residual layer at each size."""
    noise = x.new_zeros(1, 128)
    for channels in (32, 64, 128, 256):
        x = net.block(x, channels, 3, 2)
        x = (x + net.conv_norm(x, channels)).relu()
    shape, flat = x.shape, x.flatten(1)
    mean, deviation = net.linear(flat, 128), net.linear(flat, 128)
    code = mean + (deviation * 0.5).exp() * (noise + 1)
    x = net.linear(code, flat.shape[1]).relu().view(shape)
    for channels in (128, 64, 32):
        x = net.norm(net.deconv(x, channels)).relu()
        x = (x + net.conv_norm(x, channels)).relu()
    return net.conv(net.norm(net.deconv(x, 32)).relu(), 3, bias=True).sigmoid()


def dcgan_generator(net: Layers, code: Tensor) -> Tensor:
    """The generator of DCGAN (Radford et al. 2016) at 64 × 64."""
    x = net.norm(net.deconv(code.view(1, 100, 1, 1), 1024, 4, 1, 0)).relu()
    for channels in (512, 256, 128):
        x = net.norm(net.deconv(x, channels)).relu()
    return net.deconv(x, 3).tanh()


def dcgan_discriminator(net: Layers, x: Tensor) -> Tensor:
    """The discriminator of DCGAN."""
    x = net.functional.leaky_relu(net.conv(x, 64, 4, 2, padding=1), 0.2)
    for channels in (128, 256, 512):
        x = net.functional.leaky_relu(net.conv_norm(x, channels, 4, 2, padding=1), 0.2)
    return net.conv(x, 1, 4, 1, padding=0).sigmoid().flatten(1)


def pix2pix(net: Layers, x: Tensor) -> Tensor:
    """The generator of pix2pix (Isola et al. 2017) at 256 × 256: eight halvings and back, each size joined."""
    x = net.conv(x, 64, 4, 2, padding=1, bias=True)
    skips = [x]
    for channels in (128, 256, 512, 512, 512, 512):
        x = net.conv_norm(net.functional.leaky_relu(x, 0.2), channels, 4, 2, padding=1)
        skips.append(x)
    x = net.conv(net.functional.leaky_relu(x, 0.2), 512, 4, 2, padding=1).relu()
    for skip in reversed(skips):
        x = net.concatenate(skip, net.norm(net.deconv(x, skip.shape[1]))).relu()
    return net.deconv(x, 3).tanh()


def cyclegan(net: Layers, x: Tensor) -> Tensor:
    """The generator of CycleGAN (Zhu et al. 2017): nine residual blocks of a quarter of the size."""
    x = _instance(net, net.conv(_reflected(net, x, 3), 64, 7, padding=0, bias=True)).relu()
    for channels in (128, 256):
        x = _instance(net, net.conv(x, channels, 3, 2, bias=True)).relu()
    for _ in range(9):
        y = _instance(net, net.conv(_reflected(net, x, 1), 256, padding=0, bias=True)).relu()
        x = x + _instance(net, net.conv(_reflected(net, y, 1), 256, padding=0, bias=True))
    for channels in (128, 64):
        x = _instance(net, net.deconv(x, channels)).relu()
    return net.conv(_reflected(net, x, 3), 3, 7, padding=0, bias=True).tanh()


def _reflected(net: Layers, x: Tensor, margin: int) -> Tensor:
    return net.apply(net.functional.pad, x, (margin,) * 4, mode="reflect")


def _instance(net: Layers, x: Tensor) -> Tensor:
    """Each channel of each sample normalised (a group norm of one channel a group)."""
    return net.apply(net.functional.group_norm, x, x.shape[1])


def edsr(net: Layers, x: Tensor) -> Tensor:
    """EDSR-baseline at factor 4 (Lim et al. 2017): 16 residual blocks, then pixels from channels."""
    start = x = net.conv(x, 64, bias=True)
    for _ in range(16):
        x = x + net.conv(net.conv(x, 64, bias=True).relu(), 64, bias=True)
    x = start + net.conv(x, 64, bias=True)
    for _ in range(2):
        x = net.functional.pixel_shuffle(net.conv(x, 256, bias=True), 2)
    return net.conv(x, 3, bias=True)


def _segmentation(name: str, define: Define, picture: Input) -> Definition:
    return Definition(name, "segmentation", (picture,), define)


MODELS = (
    _segmentation("unet", unet, image(256)),
    _segmentation("segnet", segnet, image(256)),
    _segmentation("fcn8s-vgg16", fcn8, image(256)),
    _segmentation("deeplabv3-resnet50", deeplab, image(512)),
    _segmentation("pspnet-resnet50", pspnet, image(384)),
    _segmentation("linknet-resnet18", linknet, image(256)),
    _segmentation("semantic-fpn-resnet50", semantic_fpn, image(512)),
    _segmentation("stacked-hourglass", hourglass, image(256)),
    Definition("autoencoder", "generative", (image(64),), autoencoder),
    Definition("vae", "generative", (image(64),), variational),
    Definition("dcgan-generator", "generative", (features(100),), dcgan_generator),
    Definition("dcgan-discriminator", "generative", (image(64),), dcgan_discriminator),
    Definition("pix2pix", "generative", (image(256),), pix2pix),
    Definition("cyclegan", "generative", (image(256),), cyclegan),
    Definition("edsr-x4", "generative", (image(64),), edsr),
)
