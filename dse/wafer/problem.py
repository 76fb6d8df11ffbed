"""The wafer placement problem (paper section 2; the contest's document rules) and its solution.

A *convolution* over an image of H × W with a window of R × S, C input and K output features and stride T, run with
execution parameters (h, w, c, k), has per tile and as a rectangle of tiles::

    height = h·w·(c + 1)            width = 3·k
    time   = ⌈H/h⌉·⌈W/w⌉·⌈C/c⌉·⌈K/k⌉·R·S / T²
    memory = ⌊(C/c)·(K/k)·R·S + ((W + S − 1)/w)·((H + R − 1)/h)·(K/k)⌋ words

A *kernel* is one or more convolutions next to each other that share h and w, each with a c and a k of its own: its
width is the sum of theirs; its height, time and memory are their maximum. Every kernel becomes a rectangle on the
wafer, R90 being turned by a right angle, and

    total cost = w_time · (slowest kernel) + w_distance · distance + w_adapter · adapter

where *distance* sums |Δx| + |Δy| between the centres of the two kernels of every edge, and *adapter* counts on every
edge how many of h, w and c differ. Edges from the network's input and to its output do not count. Where the
convolutions of two joined kernels have several c, that counts as different: the contest does not say which c is meant,
and by any reading the cost is no higher.

Legal: inside the grid, no overlap, memory within the limit, 1 ≤ h ≤ H, 1 ≤ w ≤ W, 1 ≤ c ≤ C, 1 ≤ k ≤ K for every
convolution.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dse.graph.named_edges import topological_order

Rotation = Literal["R0", "R90"]


@dataclass(frozen=True)
class Convolution:
    """The formal parameters of a convolution, fixed by the network.

    Attributes:
        height, width: H and W, of the image.
        window_height, window_width: R and S.
        inputs, outputs: C and K, features.
        stride: T, in both directions.
    """

    height: int
    width: int
    window_height: int
    window_width: int
    inputs: int
    outputs: int
    stride: int = 1


@dataclass(frozen=True)
class Kernel:
    """A node of the graph that is placed.

    Attributes:
        name: unique in its graph.
        kind: the name of its kernel type.
        values: its formal parameters by name, in the order of the graph's file.
        written: its formal parameters in the order of the placement's file.
        convolutions: what it consists of, at least one.
    """

    name: str
    kind: str
    values: tuple[tuple[str, int], ...]
    written: tuple[int, ...]
    convolutions: tuple[Convolution, ...]

    @property
    def max_rows(self) -> int:
        """The largest h that every convolution allows."""
        return min(each.height for each in self.convolutions)

    @property
    def max_columns(self) -> int:
        """The largest w that every convolution allows."""
        return min(each.width for each in self.convolutions)


@dataclass(frozen=True)
class Wafer:
    """The grid: tiles across and up, and what a tile's memory holds, in words of 2 bytes."""

    width_tiles: int
    height_tiles: int
    memory_words: int

    @property
    def tiles(self) -> int:
        """All tiles."""
        return self.width_tiles * self.height_tiles


@dataclass(frozen=True)
class Weights:
    """What a unit of each part of the cost counts."""

    time: float
    distance: float
    adapter: float


@dataclass(frozen=True)
class WaferProblem:
    """Kernels, the edges between them by position, a wafer, and the weights of the cost."""

    name: str
    wafer: Wafer
    weights: Weights
    kernels: tuple[Kernel, ...]
    edges: tuple[tuple[int, int], ...]

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The kernels, producers before consumers; of those that may come next the first by position."""
        return tuple(topological_order(len(self.kernels), list(self.edges)))


@dataclass(frozen=True)
class PlacedKernel:
    """Execution parameters and place of one kernel.

    Attributes:
        h, w: shared by its convolutions.
        c, k: of each convolution.
        x, y: the lower corner of its rectangle, in tiles.
        rotation: R90 swaps width and height.
    """

    h: int
    w: int
    c: tuple[int, ...]
    k: tuple[int, ...]
    x: int
    y: int
    rotation: Rotation


@dataclass(frozen=True)
class WaferPlacement:
    """The placed kernels, by position."""

    placed: tuple[PlacedKernel, ...]


@dataclass(frozen=True)
class Cost:
    """The parts of the cost and their weighted sum: time in the contest's unit, distance in tiles, adapter a count."""

    time: float
    distance: float
    adapter: int
    total: float
