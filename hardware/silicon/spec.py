"""Keys of ``dse.chip/1`` that say what a package is made of: its dies and its memory."""

from difflib import SequenceMatcher
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hardware.silicon.tables import NO_MEMORY, Style, memories, nodes
from hardware.spec_fields import NonNegative, NonNegativeInteger, PositiveInteger, Source, StrictModel


def _known_node(node: int) -> int:
    """ValueError at a node without a row, with the nearest."""
    if node not in nodes():
        near = min(nodes(), key=lambda each: abs(each - node))
        raise ValueError(f"no such node; known: {', '.join(map(str, nodes()))} (nearest: {near})")
    return node


def _known_memory(kind: str) -> str:
    """ValueError at a kind of memory without a row, with the most alike; of equally alike ones the newest."""
    known = (*memories(), NO_MEMORY)
    if kind not in known:
        near = max(known, key=lambda each: (SequenceMatcher(None, kind.lower(), each).ratio(), each))
        raise ValueError(f"no such memory; known: {', '.join(known)} (nearest: {near})")
    return kind


NodeNm = Annotated[int, Field(gt=0, le=1000), AfterValidator(_known_node)]
MemoryName = Annotated[str, AfterValidator(_known_memory)]
SpareCores = Annotated[int, Field(ge=0, le=4096)]
"""The yield is a sum over them."""
Format = Literal["8-bit", "4-bit"]


class DieSpec(StrictModel):
    """Equal dies of a real package, with the spare units that are switched off.

    Attributes:
        name: of the die.
        count: how many a package has.
        node: of its process, in nm.
        style: what surrounds its arrays.
        source: of the sizes.
        cores: of one die.
        spare_cores: of these, switched off.
        macs_per_core: multiply-accumulates of 16 bits a cycle.
        narrow: formats in which the arrays are faster than in 16 bits.
        lanes_per_core: of 32 bits.
        fp64_lanes_per_core: beside them.
        local_kib_per_core: registers, caches and scratchpads of a core.
        shared_mib: of the die.
        memory_sites: stacks, devices or channels that the die has interfaces for.
        link_bytes_per_s: to other packages, in one direction.
        d2d_bytes_per_s: to other dies, in one direction.
        host: interfaces of 16 lanes to a host.
        stacked: whether it lies on another die.
    """

    name: Annotated[str, Field(min_length=1)]
    count: PositiveInteger = 1
    node: NodeNm
    style: Style
    source: Source
    cores: NonNegativeInteger = 0
    spare_cores: SpareCores = 0
    macs_per_core: NonNegativeInteger = 0
    narrow: tuple[Format, ...] = ()
    lanes_per_core: NonNegativeInteger = 0
    fp64_lanes_per_core: NonNegativeInteger = 0
    local_kib_per_core: NonNegative = 0.0
    shared_mib: NonNegative = 0.0
    memory_sites: NonNegativeInteger = 0
    link_bytes_per_s: NonNegative = 0.0
    d2d_bytes_per_s: NonNegative = 0.0
    host: NonNegative = 1.0
    stacked: bool = False

    @model_validator(mode="after")
    def _has_its_spare_cores(self) -> Self:
        if self.spare_cores > self.cores:
            raise ValueError(f"spare_cores must be at most cores, {self.cores}, but is {self.spare_cores}")
        return self


class PackageMemory(StrictModel):
    """The memory of a package; its size and rate are ``hbm_gib`` and ``hbm_bytes_per_s``.

    Attributes:
        kind: hbm2 to hbm4, gddr6, gddr7, lpddr5, lpddr5x or none.
        stacks: stacks, devices or channels that hold data.
        source: of these.
    """

    kind: MemoryName
    stacks: NonNegativeInteger
    source: Source
