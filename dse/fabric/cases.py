"""Random dataflow graphs that fill a part of a fabric: what cost models are trained on, and placers compared on.

The paper trains on GEMM, MLP, FFN and MHA "with various width and depth" (section IV-A) and gives no distribution. The
blocks here are these; networks are of further families, in odd sizes (:mod:`dse.models.dataflow_networks`). Both were
chosen by what fits and how long it takes, not by how any placer or cost model does on them.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

import numpy as np

from dse.fabric.search.expansion import Expansion, expand
from dse.fabric.search.sites import SitesMissingError
from dse.fabric.search.splitting import OptionsCache
from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.models.dataflow_blocks import Block, BlockKind, BlockSizes, block_graph, random_block
from dse.models.dataflow_networks import NetworkKind, network_graph
from hardware.fabrics import Fabric
from hardware.inputs import fail
from hardware.operator_slots import OperatorSlots

MIN_FILL, MAX_FILL = 0.45, 0.9
"""Share of the compute units, and of the memory units, that a case may use."""

MIN_USED = 0.4
"""Share of all compute and memory units that a case uses at least."""

MIN_SLOTS, MAX_SLOTS = 30, 300
"""Slots of work of the slowest unit."""

SEEDS_IN_A_ROW = len(get_args(BlockKind)) * len(get_args(GraphPass))
"""After so many seeds kinds and passes repeat."""

MIN_NETWORK_USED, MIN_NETWORK_SLOTS, MAX_NETWORK_SLOTS = 0.3, 10, 400
"""The same limits for networks, which are wider."""

NETWORKS_IN_A_ROW = len(get_args(NetworkKind)) * len(get_args(GraphPass))
"""After so many seeds kinds and passes of networks repeat."""

_MAX_DRAWS = 2000


@dataclass(frozen=True)
class BlockCase:
    """A block in training or inference, spread over units.

    Attributes:
        seed: of the case.
        block: with its kind and sizes.
        graph_pass: forward, or training.
        fill: share of the units that may be used.
        expansion: the graph of the block, spread over these.
    """

    seed: int
    block: Block
    graph_pass: GraphPass
    fill: float
    expansion: Expansion


@lru_cache(maxsize=4 * SEEDS_IN_A_ROW)  # whoever requires cases, as below, draws the same ones next
def block_case(seed: int, fabric: Fabric, slots: OperatorSlots) -> BlockCase:
    """The case of a seed on a fabric.

    Of eight seeds in a row, each is of another kind of block or of the other pass; where a fabric cannot hold even the
    smallest block of a kind in training, it is the forward pass of that kind. Fill, width, tokens, depth and
    copies are uniform (:func:`case_sizes`). As long as the block does not fit with buffers that are deep enough, it
    gets fewer copies, and then less depth; so does one that is bound by the channels off chip, to whose rate no
    placement matters. What does not fit even so, or breaks a limit of this module, is drawn again.

    Raises:
        InputError: nothing fits on the fabric, or as :func:`dse.fabric.search.expansion.expand`.
    """
    kinds, passes = get_args(BlockKind), get_args(GraphPass)
    kind, graph_pass = kinds[seed % len(kinds)], passes[seed // len(kinds) % len(passes)]
    if graph_pass == "training" and not _holds_smallest(kind, fabric, slots):
        graph_pass = "forward"
    generator, sizes = np.random.default_rng(seed), case_sizes(fabric)
    for _ in range(_MAX_DRAWS):
        fill = float(generator.uniform(MIN_FILL, MAX_FILL))
        drawn = random_block(kind, int(generator.integers(2**31)), sizes)
        case = _fitted(seed, drawn, graph_pass, fill, fabric, slots)
        if case is not None and _is_within((MIN_USED, MIN_SLOTS, MAX_SLOTS), case.expansion, fabric):
            return case
    candidates = f"{_MAX_DRAWS:,} random graphs ({graph_pass})"
    raise fail(
        fabric.name, "", "", f"none of {candidates} of kind {kind} fits on the fabric and fills {MIN_USED:.0%} of it"
    )


@dataclass(frozen=True)
class NetworkCase:
    """A network in training or inference, spread over units.

    Attributes:
        seed: of the case.
        kind: of network.
        graph_pass: forward, or training.
        fill: share of the units that may be used.
        expansion: the graph of the network, spread over these.
    """

    seed: int
    kind: NetworkKind
    graph_pass: GraphPass
    fill: float
    expansion: Expansion


def network_case(seed: int, fabric: Fabric, slots: OperatorSlots) -> NetworkCase:
    """The network of a seed on a fabric.

    Of :data:`NETWORKS_IN_A_ROW` seeds in a row, each is of another kind or of the other pass; a kind of which no
    training step fits has its forward pass in both places. Fill and copies are uniform; there are fewer copies where
    they do not fit. What does not fit even so, or is out of limits, is drawn again.

    Raises:
        InputError: nothing fits on the fabric, or as :func:`dse.fabric.search.expansion.expand`.
    """
    kinds, passes = get_args(NetworkKind), get_args(GraphPass)
    kind, asked = kinds[seed % len(kinds)], passes[seed // len(kinds) % len(passes)]
    limits = MIN_NETWORK_USED, MIN_NETWORK_SLOTS, MAX_NETWORK_SLOTS
    for graph_pass in dict.fromkeys((asked, passes[0])):
        generator = np.random.default_rng(seed)
        for _ in range(_MAX_DRAWS):
            fill = float(generator.uniform(MIN_FILL, MAX_FILL))
            number, copies = int(generator.integers(2**31)), int(generator.integers(1, _max_copies(fabric) + 1))
            known: OptionsCache = {}
            while copies:
                graph = network_graph(kind, number, graph_pass, fabric.tile, copies)
                expansion = _spread(graph, fabric, slots, fill, known)
                if expansion is None:
                    copies -= 1
                    continue
                if _is_within(limits, expansion, fabric):
                    return NetworkCase(seed, kind, graph_pass, fill, expansion)
                break
    raise fail(fabric.name, "", "", f"none of {_MAX_DRAWS:,} random networks of kind {kind} fits on the fabric")


def require_block_cases(fabric: Fabric, slots: OperatorSlots) -> None:
    """Refuse a fabric or a table with which blocks of some kind, or their training, cannot be drawn; under a second
    where they can.

    Raises:
        InputError: as :func:`block_case`.
    """
    for seed in range(SEEDS_IN_A_ROW):
        block_case(seed, fabric, slots)


def case_sizes(fabric: Fabric) -> BlockSizes:
    """Sizes of blocks: in tiles, with up to four copies for each 128 compute and memory units."""
    tile, copies = fabric.tile, (1, _max_copies(fabric))
    return BlockSizes(tile, tokens=(tile, 8 * tile), width=(tile, 12 * tile), ratio=(1, 3), depth=(1, 4), copies=copies)


def _max_copies(fabric: Fabric) -> int:
    return max(1, sum(kind != "io" for kind in fabric.grid.site_kind) // 32)


def _holds_smallest(kind: BlockKind, fabric: Fabric, slots: OperatorSlots) -> bool:
    """Whether a block of one tile each way fits in training on the largest share of the units that a case may use."""
    smallest = Block(kind, tokens=fabric.tile, width=fabric.tile, inner=fabric.tile)
    return _fitted(0, smallest, "training", MAX_FILL, fabric, slots) is not None


def _fitted(
    seed: int, block: Block, graph_pass: GraphPass, fill: float, fabric: Fabric, slots: OperatorSlots
) -> BlockCase | None:
    """The case with as many copies, and then layers, as fit; None where not even one of each does."""
    known: OptionsCache = {}
    while True:
        expansion = _spread(block_graph(block, graph_pass), fabric, slots, fill, known)
        if expansion is not None:
            return BlockCase(seed, block, graph_pass, fill, expansion)
        if block.copies == block.depth == 1:
            return None
        block = replace(block, copies=block.copies - 1) if block.copies > 1 else replace(block, depth=block.depth - 1)


def _spread(
    graph: DataflowGraph, fabric: Fabric, slots: OperatorSlots, fill: float, known: OptionsCache
) -> Expansion | None:
    """A graph over units; None where it does not fit with buffers that are deep enough, or is bound off chip."""
    with suppress(SitesMissingError):
        expansion = expand(graph, fabric, slots, fill, known)
        if expansion.period_slots == expansion.target_slots and not expansion.is_channel_bound:
            return expansion
    return None


def _is_within(limits: tuple[float, int, int], expansion: Expansion, fabric: Fabric) -> bool:
    """Whether a case uses the least share of units, and its slowest unit has slots within limits."""
    min_used, min_slots, max_slots = limits
    used = sum(unit.kind.site != "io" for unit in expansion.pipeline.units)
    available = sum(kind != "io" for kind in fabric.grid.site_kind)
    return used >= min_used * available and min_slots <= expansion.pipeline.ideal_slots <= max_slots
