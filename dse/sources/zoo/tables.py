"""Recommendation, games, volumes and points, and today's networks without convolutions of any size."""

from dse.sources.zoo.network import Definition, Input, Layers, Tensor, features, image, tokens


def _columns(net: Layers, ids: Tensor, rows: tuple[int, ...], width: int) -> list[Tensor]:
    """One table for each categorical column."""
    return [net.embed(column, size, width) for column, size in zip(ids.unbind(1), rows, strict=True)]


_ROWS = (1460, 583, 100_000, 22_021, 305, 24, 12_517, 633, 3, 93_145, 5683, 83_515, 3194)
"""Rows of the tables of thirteen columns (Criteo's, the largest cut to 100,000)."""


def dlrm(net: Layers, dense: Tensor, ids: Tensor) -> Tensor:
    """DLRM (Naumov et al. 2019): products of all pairs of embeddings, between two perceptrons."""
    bottom = net.mlp(dense, (512, 256, 64))
    parts = net.torch.stack([bottom, *_columns(net, ids, _ROWS, 64)], 1)
    products = parts @ parts.transpose(1, 2)
    x = net.concatenate(bottom, products.flatten(1))
    return net.linear(net.mlp(x, (1024, 512, 256)), 1).sigmoid()


def wide_and_deep(net: Layers, dense: Tensor, ids: Tensor) -> Tensor:
    """Wide & Deep (Cheng et al. 2016)."""
    deep = net.concatenate(dense, *_columns(net, ids, _ROWS, 32))
    deep = net.linear(net.mlp(deep, (1024, 512, 256)), 1)
    wide = net.linear(dense, 1)
    for column in _columns(net, ids, _ROWS, 1):
        wide = wide + column
    return (wide + deep).sigmoid()


def deep_factorisation(net: Layers, ids: Tensor) -> Tensor:
    """DeepFM (Guo et al. 2017): pairwise products by sums and squares, next to a perceptron of the same embeddings."""
    columns = _columns(net, ids, _ROWS, 16)
    stacked = net.torch.stack(columns, 1)
    total, squares = stacked.sum(1), (stacked * stacked).sum(1)
    pairs = (total * total - squares).sum(1, keepdim=True) * 0.5
    first = net.torch.stack(_columns(net, ids, _ROWS, 1), 1).sum(1)
    deep = net.linear(net.mlp(stacked.flatten(1), (400, 400, 400)), 1)
    answer: Tensor = first + pairs + deep
    return answer.sigmoid()


def neural_filtering(net: Layers, ids: Tensor) -> Tensor:
    """NeuMF (He et al. 2017): a product and a perceptron of users and items."""
    rows = (138_493, 26_744)
    user, item = _columns(net, ids, rows, 64)
    deep = net.mlp(net.concatenate(*_columns(net, ids, rows, 128)), (256, 128, 64))
    return net.linear(net.concatenate(user * item, deep), 1).sigmoid()


def go_player(net: Layers, board: Tensor) -> tuple[Tensor, Tensor]:
    """AlphaGo Zero (Silver et al. 2017), ten residual blocks: moves and value."""
    x = net.block(board, 256)
    for _ in range(10):
        x = (x + net.conv_norm(net.block(x, 256), 256)).relu()
    moves = net.linear(net.block(x, 2, 1).flatten(1), 362)
    value = net.linear(net.linear(net.block(x, 1, 1).flatten(1), 256).relu(), 1).tanh()
    return moves, value


def c3d(net: Layers, video: Tensor) -> Tensor:
    """C3D (Tran et al. 2015): convolutions over space and time."""
    x = net.functional.max_pool3d(net.conv(video, 64, bias=True).relu(), (1, 2, 2))
    x = net.max_pool(net.conv(x, 128, bias=True).relu(), 2)
    for channels in (256, 512, 512):
        for _ in range(2):
            x = net.conv(x, channels, bias=True).relu()
        x = net.max_pool(x, 2, 2, 1 if channels == 512 and x.shape[-1] == 7 else 0)
    return net.linear(net.mlp(x.flatten(1), (4096, 4096)), 487)


def pointnet(net: Layers, points: Tensor) -> Tensor:
    """PointNet (Qi et al. 2017) with both its transforms."""

    def transform(x: Tensor, side: int) -> Tensor:
        y = x
        for channels in (64, 128, 1024):
            y = net.block(y, channels, 1)
        y = net.mlp(y.amax(-1), (512, 256))
        return net.linear(y, side * side).view(1, side, side)

    x = (points.transpose(1, 2) @ transform(points, 3)).transpose(1, 2)
    x = net.block(net.block(x, 64, 1), 64, 1)
    x = (x.transpose(1, 2) @ transform(x, 64)).transpose(1, 2)
    for channels in (64, 128, 1024):
        x = net.block(x, channels, 1)
    return net.linear(net.mlp(x.amax(-1), (512, 256)), 40)


def mixer(net: Layers, picture: Tensor) -> Tensor:
    """MLP-Mixer S/16 (Tolstikhin et al. 2021)."""
    x = net.conv(picture, 512, 16, 16, padding=0, bias=True).flatten(2).transpose(1, 2)
    for _ in range(8):
        y = net.layer_norm(x).transpose(1, 2)
        y = net.linear(net.functional.gelu(net.linear(y, 256)), y.shape[-1])
        x = x + y.transpose(1, 2)
        x = x + net.linear(net.functional.gelu(net.linear(net.layer_norm(x), 2048)), 512)
    return net.linear(net.layer_norm(x).mean(1), 1000)


def convmixer(net: Layers, picture: Tensor) -> Tensor:
    """ConvMixer-768/32 (Trockman and Kolter 2022)."""
    gelu = net.functional.gelu
    x = net.norm(gelu(net.conv(picture, 768, 7, 7, padding=0, bias=True)))
    for _ in range(32):
        x = x + net.norm(gelu(net.conv(x, 768, 7, groups=768, bias=True)))
        x = net.norm(gelu(net.conv(x, 768, 1, bias=True)))
    return net.classify(x)


MODELS = (
    Definition("dlrm", "recommendation", (features(13), tokens(13)), dlrm),
    Definition("wide-and-deep", "recommendation", (features(13), tokens(13)), wide_and_deep),
    Definition("deepfm", "recommendation", (tokens(13),), deep_factorisation),
    Definition("neumf", "recommendation", (tokens(2),), neural_filtering),
    Definition("alphago-zero", "various", (image(19, 17),), go_player),
    Definition("c3d", "various", (Input((1, 3, 16, 112, 112)),), c3d),
    Definition("pointnet", "various", (features(3, 1024),), pointnet),
    Definition("mlp-mixer-s16", "modern", (image(),), mixer),
    Definition("convmixer-768-32", "modern", (image(),), convmixer),
)
