"""Tables of silicon (``specs/silicon``): nodes, memories, blocks, money, and the constants that were fitted."""

import math
from functools import cache
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from hardware.silicon.interval import Interval, Numbers
from hardware.spec_fields import NonNegative, Positive, PositiveInteger, Source, StrictModel, read_spec

Style = Literal["systolic", "simt", "tile"]
STYLES: tuple[Style, ...] = get_args(Style)

REFERENCE_NODE = 7
"""Node in which areas of blocks are stated, nm."""

NO_MEMORY = "none"


class Range(StrictModel):
    """A figure, the lowest and the highest that its sources allow, and these.

    Attributes:
        value: the figure.
        low: the lowest.
        high: the highest.
        source: a document, or an assumption that is called one.
    """

    value: NonNegative
    low: NonNegative
    high: NonNegative
    source: Source

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if not self.low <= self.value <= self.high:
            raise ValueError("`low <= value <= high` must hold")
        return self

    def times(self, amount: Numbers) -> Interval:
        """As many of it."""
        return Interval.exact(amount) * self.interval

    @property
    def interval(self) -> Interval:
        """The figure as numbers."""
        exact = Interval.exact
        return Interval(exact(self.value).value, exact(self.low).value, exact(self.high).value)


class Node(StrictModel):
    """A node of logic; units as in the file."""

    logic: Positive
    cell: Positive
    wafer: Positive
    wafer_low: Positive
    wafer_high: Positive
    defects: Positive
    fab: Positive
    energy: Positive
    clock: Positive
    gases: Positive
    source: Source


class Nodes(StrictModel):
    """Nodes by nm."""

    name: str
    nodes: dict[PositiveInteger, Node]


class MemoryKind(StrictModel):
    """A kind of memory; units as in the file."""

    bytes_per_s: Positive
    gb: Annotated[list[PositiveInteger], Field(min_length=1)]
    phy: Positive
    phy_low: Positive
    phy_high: Positive
    control: Positive
    edge: Positive
    area: NonNegative
    pj_per_bit: Positive
    pj_low: Positive
    pj_high: Positive
    idle_w: NonNegative
    usd_per_gb: Positive
    usd_low: Positive
    usd_high: Positive
    source: Source


class Memories(StrictModel):
    """Kinds of memory by name."""

    name: str
    memories: dict[str, MemoryKind]


class Blocks(StrictModel):
    """Areas, edges and energies of blocks; units in the names."""

    name: str
    mac_um2: Range
    mac_8bit_share: Range
    mac_4bit_share: Range
    simt_lane_um2: Range
    simd_lane_um2: Range
    fp64_lane_um2: Range
    scratchpad_mm2_per_mib: Range
    cache_mm2_per_mib: Range
    tile_sram_mm2_per_mib: Range
    network_mm2_per_core: Range
    link_phy_mm2: Range
    link_112g_phy_mm2: Range
    link_control_mtr: Range
    host_mm2: Range
    d2d_gbit_s_per_mm2: Range
    d2d_gbit_s_per_mm: Range
    link_gbit_s_per_mm: Range
    link_pj_per_bit: Range
    d2d_pj_per_bit: Range
    host_edge_mm: Range
    reticle_mm: Range
    reticle_mm2: Range
    aspect: Range
    simt_idle_hz: Range


class Money(StrictModel):
    """Prices and carbon; units in the names."""

    name: str
    yield_alpha: Range
    package_usd_per_mm2: Range
    package_area_share: Range
    package_yield: Range
    board_package_usd: Range
    test_usd: Range
    price_over_cost: Range
    server_usd: Range
    years: Range
    colocation_usd_per_kw_month: Range
    power_usd_per_kwh: Range
    host_w: Range
    host_w_rack: Range
    grid_kg_per_kwh: Range
    use_kg_per_kwh: Range
    material_kg_per_cm2: Range
    fab_yield: Range
    memory_kg_per_gb: Range


class Fitted(StrictModel):
    """The constants that were fitted (``python -m benchmarks.silicon --fit``).

    Attributes:
        name: of the spec.
        simt_factor: of area, by style.
        systolic_factor: of area, by style.
        tile_factor: of area; not fitted.
        static_w_per_mm2: at no clock.
        tree_w_per_mm2_ghz: of the clock, for each mm² of a die.
        switching_pj_per_um2: of logic at work, in 7 nm, for each cycle.
        all_in: watts of a building for each watt of a server.
    """

    name: str
    simt_factor: Range
    systolic_factor: Range
    tile_factor: Range
    static_w_per_mm2: Range
    tree_w_per_mm2_ghz: Range
    switching_pj_per_um2: Range
    all_in: Range

    def factor(self, style: Style) -> Interval:
        """The factor of the area of a style."""
        ranges = {"simt": self.simt_factor, "systolic": self.systolic_factor, "tile": self.tile_factor}
        return ranges[style].interval


@cache
def nodes() -> dict[int, Node]:
    """Nodes by nm, from the coarsest."""
    table = read_spec("silicon", "nodes", Nodes, "silicon table").nodes
    return dict(sorted(table.items(), reverse=True))


@cache
def memories() -> dict[str, MemoryKind]:
    """Kinds of memory by name."""
    return read_spec("silicon", "memories", Memories, "silicon table").memories


@cache
def blocks() -> Blocks:
    """Areas of blocks."""
    return read_spec("silicon", "blocks", Blocks, "silicon table")


@cache
def money() -> Money:
    """Prices and carbon."""
    return read_spec("silicon", "money", Money, "silicon table")


@cache
def fitted() -> Fitted:
    """The constants that were fitted."""
    return read_spec("silicon", "fitted", Fitted, "silicon table")


def energy_scale(process_nm: float) -> float:
    """Energy of a logic operation over that in 7 nm, between nodes and beyond the coarsest one on log-log paper."""
    known = list(nodes())
    position = next((at for at, node in enumerate(known[1:], 1) if node <= process_nm), len(known) - 1)
    coarse, fine = known[position - 1], known[position]
    first, last = nodes()[coarse].energy, nodes()[fine].energy
    if process_nm == fine:
        return last
    return first * math.pow(last / first, math.log(coarse / process_nm) / math.log(coarse / fine))


def logic_scale(node: int) -> float:
    """Area of logic over that in 7 nm."""
    return nodes()[REFERENCE_NODE].logic / nodes()[node].logic


def sram_scale(node: int) -> float:
    """Area of SRAM over that in 7 nm."""
    return nodes()[node].cell / nodes()[REFERENCE_NODE].cell


def scaled(figure: Range, amount: Numbers, scale: float) -> Interval:
    """``amount`` of a figure in 7 nm, in a node."""
    return figure.times(amount) * scale
