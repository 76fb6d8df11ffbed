"""The networks of the ISPD 2020 contest as kernel graphs: ResNet-50 and ResNet-75, U-Net, a fully connected chain.

Kernels and edges are those of the official files, down to their order and to what is odd about them: kernels are
numbered from the output to the input, first the blocks that halve the image (``cblock``), then the others (``dblock``);
ResNet-75 halves an image of 56 × 56 twice; the residual edge of a block that is written as its convolutions leaves its
first convolution and enters its third, and so does, through the fourth, that of a ``cblock``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from dse.wafer.files.kgraph import TITLE_KEY, GraphEdge, GraphNode, KernelGraph
from dse.wafer.kernels import contest_library
from dse.wafer.problem import Convolution

HEADER: Mapping[str, str] = MappingProxyType(
    {"width": "633", "height": "633", "wdeltat": "1", "wlength": "1", "wadapter": "0", "memlimit": "24576"}
)
"""The contest's wafer, and the weights of its case A."""


class GraphMaker(Protocol):
    """What makes a kernel graph."""

    def graph(self, name: str) -> KernelGraph:
        """The graph, titled ``name``."""
        ...


@dataclass(frozen=True)
class ResidualStage:
    """The blocks of a residual network that work on images of one size.

    Attributes:
        features: F of its blocks.
        image: the side of the image that its first block, a ``cblock``, halves.
        inner: the side of the image of the others.
        blocks: how many others, each a ``dblock``.
    """

    features: int
    image: int
    inner: int
    blocks: int


@dataclass(frozen=True)
class _Block:
    kind: str
    features: int
    image: int

    @property
    def values(self) -> dict[str, int]:
        """Its formal parameters."""
        return {"f": self.features, "h": self.image, "w": self.image}


@dataclass(frozen=True)
class Residual:
    """A residual network; ``convolutions`` says how it writes a block.

    Attributes:
        stages: from the output to the input.
        inputs: features of the image that the network is given, 112 × 112.
        write: how its blocks become nodes: :func:`as_blocks` or :func:`as_convolutions`.
    """

    stages: tuple[ResidualStage, ...]
    inputs: int
    write: "Callable[[Residual], _Parts]"

    @property
    def blocks(self) -> tuple[_Block, ...]:
        """As they are numbered."""
        halving = tuple(_Block("cblock", stage.features, stage.image) for stage in self.stages)
        plain = (_Block("dblock", stage.features, stage.inner) for stage in self.stages for _ in range(stage.blocks))
        return (*halving, *plain)

    @property
    def chain(self) -> tuple[int, ...]:
        """The blocks by number from 0, from the input to the output."""
        ends, end = [], len(self.stages)
        for stage in self.stages:
            end += stage.blocks
            ends.append(end)
        order: list[int] = []
        for number in reversed(range(len(self.stages))):
            order += [number, *reversed(range(ends[number] - self.stages[number].blocks, ends[number]))]
        return tuple(order)

    def graph(self, name: str) -> KernelGraph:
        """The graph, titled ``name``."""
        parts, last = self.write(self), self.stages[0]
        blocks = self.blocks
        follower = dict(zip(self.chain, self.chain[1:], strict=False))
        first = parts.entry[self.chain[0]]
        end = len(parts.nodes) + 1
        edges = [GraphEdge(("input", 0, "_"), (*first, "x"), (_IMAGE, _IMAGE, self.inputs))]
        for number, block in enumerate(blocks):
            after = follower.get(number)
            target = ("output", end, "_") if after is None else (*parts.entry[after], "x")
            image = last.inner if after is None else blocks[after].image
            edges.append(GraphEdge((*parts.exit[number], "y"), target, (image, image, block.features)))
        nodes = (
            GraphNode("input", 0, "k0", sizes=(_IMAGE, _IMAGE, self.inputs)),
            *parts.nodes,
            GraphNode("output", end, f"k{end}", sizes=(last.inner, last.inner, last.features)),
        )
        return KernelGraph({TITLE_KEY: name, **HEADER}, nodes, (*parts.edges, *edges))


_IMAGE = 112
"""Side of the image that a residual network is given, after its stem."""


@dataclass(frozen=True)
class _Parts:
    """Nodes, the edges inside blocks, and by block the kernel that reads its input and the one that has its output."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    entry: tuple[tuple[str, int], ...]
    exit: tuple[tuple[str, int], ...]


def as_blocks(network: Residual) -> _Parts:
    """Each block one kernel."""
    nodes = tuple(
        GraphNode(block.kind, number, f"k{number}", tuple(block.values.items()))
        for number, block in enumerate(network.blocks, 1)
    )
    ends = tuple((node.kind, node.index) for node in nodes)
    return _Parts(nodes, (), ends, ends)


def as_convolutions(network: Residual) -> _Parts:
    """Each convolution of a block a kernel of its own."""
    nodes, edges = list[GraphNode](), list[GraphEdge]()
    entry, leave = [], []
    for block in network.blocks:
        first = len(nodes) + 1
        _, convolutions = contest_library()[block.kind].build(block.values)
        nodes += [_convolution(number, each) for number, each in enumerate(convolutions, first)]
        edges += _inside(block, first, convolutions)
        entry.append(("conv", first))
        leave.append(("conv", first + 2))
    return _Parts(tuple(nodes), tuple(edges), tuple(entry), tuple(leave))


def _inside(block: _Block, first: int, convolutions: tuple[Convolution, ...]) -> Iterator[GraphEdge]:
    """Along the three convolutions, and the residual edge past the second, through the fourth where there is one."""
    middle = convolutions[0].outputs
    joined = [(0, 1, middle), (1, 2, middle)]
    joined += [(0, 2, block.features)] if len(convolutions) == 3 else [(0, 3, middle), (3, 2, block.features)]
    for source, target, features in joined:
        yield _edge(first + source, first + target, block.image, features)


def _convolution(number: int, each: Convolution) -> GraphNode:
    values = {
        "W": each.width,
        "H": each.height,
        "R": each.window_height,
        "S": each.window_width,
        "C": each.inputs,
        "K": each.outputs,
        "T": each.stride,
        "U": each.stride,
    }
    return GraphNode("conv", number, f"k{number}", tuple(values.items()))


def _edge(source: int, target: int, image: int, features: int) -> GraphEdge:
    return GraphEdge(("conv", source, "y"), ("conv", target, "x"), (image, image, features))


@dataclass(frozen=True)
class Chain:
    """Convolutions in sequence, with edges that skip some.

    Attributes:
        convolutions: with square images.
        skips: pairs of them by number from 1.
    """

    convolutions: tuple[Convolution, ...]
    skips: tuple[tuple[int, int], ...] = ()

    def graph(self, name: str) -> KernelGraph:
        """The graph, titled ``name``."""
        kernels = [_convolution(number, each) for number, each in enumerate(self.convolutions, 1)]
        first, last, end = self.convolutions[0], self.convolutions[-1], len(kernels) + 1
        given, made = (first.height, first.width, first.inputs), (last.height, last.width, last.outputs)
        pairs = [(number, number + 1) for number in range(1, end - 1)]
        inside = [self._joined(source, target) for source, target in (*pairs, *self.skips)]
        edges = (
            GraphEdge(("input", 0, "_"), ("conv", 1, "x"), given),
            *inside[: len(pairs)],
            GraphEdge(("conv", end - 1, "y"), ("output", end, "_"), made),
            *inside[len(pairs) :],
        )
        nodes = (GraphNode("input", 0, "k0", sizes=given), *kernels, GraphNode("output", end, f"k{end}", sizes=made))
        return KernelGraph({TITLE_KEY: name, **HEADER}, nodes, edges)

    def _joined(self, source: int, target: int) -> GraphEdge:
        return _edge(source, target, self.convolutions[target - 1].height, self.convolutions[source - 1].outputs)


_SIDES_50 = ((14, 7), (28, 14), (56, 28), (112, 56))
_SIDES_75 = (*_SIDES_50[:3], (56, 56))
_RESNET50, _RESNET50_TWICE, _RESNET75 = (2, 5, 3, 2), (5, 11, 7, 5), (4, 8, 5, 4)


def _resnet(
    blocks: tuple[int, ...],
    write: Callable[[Residual], _Parts],
    sides: tuple[tuple[int, int], ...] = _SIDES_50,
    features: int = 2048,
    inputs: int = 128,
) -> Residual:
    """A ResNet of the contest that ends in ``features``; each stage before has half of them."""
    rows = enumerate(zip(sides, blocks, strict=True))
    stages = tuple(ResidualStage(features >> number, image, inner, count) for number, ((image, inner), count) in rows)
    return Residual(stages, inputs, write)


def _unet() -> Chain:
    """U-Net over 512 × 512; an up-convolution counts the image that it reads, and joined features are not added up."""
    down = [(512, 1, 64), (512, 64, 128)]
    for level in range(1, 4):
        side, features = 512 >> level, 64 << level
        down += [(side, features, features), (side, features, 2 * features)]
    layers = [Convolution(side, side, 3, 3, inputs, outputs) for side, inputs, outputs in down]
    layers += [Convolution(32, 32, 3, 3, 1024, 1024)] * 2
    for level in range(4):
        side, features = 32 << level, 1024 >> level
        layers.append(Convolution(side, side, 2, 2, features, features))
        layers.append(Convolution(2 * side, 2 * side, 3, 3, features, features // 2))
        layers.append(Convolution(2 * side, 2 * side, 3, 3, features // 2, features // 2))
    layers.append(Convolution(512, 512, 1, 1, 64, 2))
    return Chain(tuple(layers), ((2, 21), (4, 18), (6, 15), (8, 12)))


def _fully_connected() -> Chain:
    """Layers from 2 to 8192 features, two of each size, and one to 16."""
    widths = [2 << (number // 2) for number in range(1, 26)]
    pairs = zip([2, *widths], [*widths, 16], strict=True)
    return Chain(tuple(Convolution(1, 1, 1, 1, inputs, outputs) for inputs, outputs in pairs))


NETWORKS: Mapping[str, GraphMaker] = MappingProxyType(
    {
        "resnet50-blocks": _resnet(_RESNET50, as_blocks),
        "resnet50x2-blocks": _resnet(_RESNET50_TWICE, as_blocks, inputs=256),
        "resnet50x2-conv": _resnet(_RESNET50_TWICE, as_convolutions, inputs=256),
        "resnet50-conv": _resnet(_RESNET50, as_convolutions),
        "resnet75-blocks": _resnet(_RESNET75, as_blocks, _SIDES_75),
        "resnet75-conv": _resnet(_RESNET75, as_convolutions, _SIDES_75),
        "resnet50-lean-blocks": _resnet(_RESNET50, as_blocks, features=128, inputs=8),
        "resnet50-lean-conv": _resnet(_RESNET50, as_convolutions, features=128, inputs=8),
        "unet-conv": _unet(),
        "fcnet": _fully_connected(),
    }
)
"""The ten graphs of the contest's twenty cases, in their order: A=E, B=F, C=G, D=H, I=O, J=P, K=Q, L=R, M=S, N=T."""
