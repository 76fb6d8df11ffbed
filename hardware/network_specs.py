"""Network specs: ``specs/networks/*.yaml`` and files of users, read and checked (:mod:`hardware.network`)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hardware.input_files import read_once
from hardware.inputs import InputError, fail
from hardware.network import Network, TimedCollective
from hardware.spec_fields import (
    Choice,
    Count,
    NonNegative,
    Quantity,
    Share,
    Source,
    StrictModel,
    beside,
    read_spec_with,
    spec_names,
)

_FOLDER = "networks"


class _NonNegativeQuantity(StrictModel):
    value: NonNegative
    source: Source


class _Share(StrictModel):
    value: Share
    source: Source


TimedKind = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
"""Kinds of collectives that a network may have constants of their own for."""


class TimedCollectiveSpec(StrictModel):
    """Constants of one kind of collective that was timed as a whole:
    launch + steps · latency + wire bytes / (efficiency · links · rate).

    Attributes:
        launch_s: of the collective.
        latency_s: of a step.
        efficiency: its sustained share of all ``links``.
    """

    launch_s: _NonNegativeQuantity
    latency_s: _NonNegativeQuantity
    efficiency: _Share


class TimedOn(StrictModel):
    """What collectives were timed on.

    Attributes:
        accelerator: by name.
        ranks: the most.
        source: of the times.
    """

    accelerator: Annotated[str, Field(min_length=1)]
    ranks: Annotated[int, Field(ge=2)]
    source: Source


class NetworkSpec(StrictModel):
    """A flat network, as one accelerator sees it (``specs/networks``).

    Attributes:
        name: of the spec.
        description: for people.
        links: of an accelerator.
        link_bytes_per_s: one link in one direction.
        efficiency: sustained share of all links.
        latency_s: of a step and channel.
        launch_s: of a transfer or collective.
        channels: that a collective may use.
        additions_included: whether the constants are of measured collectives, whose time holds their additions.
        domain: the most accelerators that such links have joined; without it, any number.
        shared_by_node: whether the links belong to a node, the unit of the level inside (one network card per server);
            accelerators that communicate across nodes at once share them.
        transfer_bytes_per_s: what one transfer reaches alone, where that is less than all links together.
        links_per_member: links that each member of a collective brings, where a small group cannot use them all.
        collectives: kinds that were timed one by one; others, and transfers, have the constants of the network.
        timed_on: on what.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    links: Count
    link_bytes_per_s: Quantity
    efficiency: _Share
    latency_s: _NonNegativeQuantity
    launch_s: _NonNegativeQuantity
    channels: Count
    additions_included: Choice
    domain: Count | None = None
    shared_by_node: Choice | None = None
    transfer_bytes_per_s: Quantity | None = None
    links_per_member: Quantity | None = None
    collectives: Annotated[dict[TimedKind, TimedCollectiveSpec], Field(min_length=1)] | None = None
    timed_on: TimedOn | None = None

    @model_validator(mode="after")
    def _one_transfer_is_within_all_links(self) -> "NetworkSpec":
        alone = self.transfer_bytes_per_s
        if alone is not None and alone.value > self.bytes_per_s:
            raise ValueError(
                f"transfer_bytes_per_s must be at most the rate of all links together, {self.bytes_per_s:g}, but "
                f"got {alone.value:g}"
            )
        return self

    @model_validator(mode="after")
    def _timed_reductions_add(self) -> "NetworkSpec":
        timed = sorted({"all_reduce", "reduce_scatter"} & set(self.collectives or ()))
        if timed and not self.additions_included.value:
            raise ValueError(
                f"additions_included must be true, because collectives has a timed {timed[0]}, which includes additions"
            )
        return self

    @property
    def bytes_per_s(self) -> float:
        """The sustained rate of all links together."""
        return self.links.value * self.link_bytes_per_s.value * self.efficiency.value

    def network(self) -> Network:
        """The network that the spec describes."""
        alone, brought = self.transfer_bytes_per_s, self.links_per_member
        return Network(
            name=self.name,
            bytes_per_s=self.bytes_per_s,
            latency_s=self.latency_s.value,
            launch_s=self.launch_s.value,
            channels=self.channels.value,
            additions_included=self.additions_included.value,
            domain_accelerators=0 if self.domain is None else self.domain.value,
            shared=self.shared_by_node is not None and self.shared_by_node.value,
            transfer_share=1.0 if alone is None else alone.value / self.bytes_per_s,
            ring_share=1.0 if brought is None else min(1.0, brought.value / self.links.value),
            timed=tuple(
                TimedCollective(
                    kind,
                    constants.launch_s.value,
                    constants.latency_s.value,
                    constants.efficiency.value / self.efficiency.value,
                )
                for kind, constants in (self.collectives or {}).items()
            ),
            timed_on="" if self.timed_on is None else self.timed_on.accelerator,
            timed_ranks=0 if self.timed_on is None else self.timed_on.ranks,
        )


class Level(StrictModel):
    """One level of a network.

    Attributes:
        network: a flat network, by name or path as seen from the folder of the file.
        accelerators: that one unit of the level joins; the outermost level has none, since it joins all.
    """

    network: Annotated[str, Field(min_length=1)]
    accelerators: Count | None = None


class LevelledNetworkSpec(StrictModel):
    """A network of several levels.

    Attributes:
        name: of the spec.
        description: for people.
        levels: from the inside out.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    levels: Annotated[list[Level], Field(min_length=1)]

    @field_validator("levels")
    @classmethod
    def _grow(cls, levels: list[Level]) -> list[Level]:
        *nodes, outermost = levels
        if outermost.accelerators is not None:
            raise ValueError("the last level connects all accelerators and must not state their number")
        sizes = [1]
        for level in nodes:
            if level.accelerators is None:
                raise ValueError("every level except the last must state the number of accelerators per node")
            if level.accelerators.value <= sizes[-1] or level.accelerators.value % sizes[-1]:
                raise ValueError(
                    f"accelerators must be a larger multiple of the accelerators of the level inside ({sizes[-1]}), "
                    f"but got {level.accelerators.value}"
                )
            sizes.append(level.accelerators.value)
        return levels

    def network(self, flat: Sequence[Network]) -> Network:
        """The network of these levels, given each level's own."""
        joined = flat[0]
        for level, outer in zip(self.levels, flat[1:], strict=False):
            assert level.accelerators is not None, "all but the last have it"
            joined = replace(
                outer,
                additions_included=joined.additions_included,
                inner=joined,
                inner_accelerators=level.accelerators.value,
            )
        return replace(joined, name=self.name)


def list_networks() -> list[str]:
    """Names of the networks that come with the package, sorted."""
    return spec_names(_FOLDER)


def network(name_or_path: str | Path) -> Network:
    """The network of this name, or the one that a YAML or JSON file describes.

    Raises:
        InputError: no network of this name (with the nearest one), or a file that breaks a rule.
    """
    spec = network_spec(name_or_path)
    if isinstance(spec, NetworkSpec):
        return spec.network()
    return spec.network([_flat(level.network, index, name_or_path) for index, level in enumerate(spec.levels)])


@read_once
def network_spec(name_or_path: str | Path) -> NetworkSpec | LevelledNetworkSpec:
    """The spec behind :func:`network`, with the source of each constant; raises as that does."""
    return read_spec_with("levels", _FOLDER, name_or_path, LevelledNetworkSpec, NetworkSpec, "network")


def link_peak_bytes_per_s(name_or_path: str | Path) -> float:
    """The peak of all links of one accelerator in one direction, inside a server where there are levels.

    Raises:
        InputError: as :func:`network`.
    """
    spec = network_spec(name_or_path)
    if isinstance(spec, LevelledNetworkSpec):
        return link_peak_bytes_per_s(beside(name_or_path, spec.levels[0].network))
    return spec.links.value * spec.link_bytes_per_s.value


def named_network(name: str, file: str | Path, key: str) -> "NetworkSpec | LevelledNetworkSpec":
    """The network that ``file`` names under ``key``; a path is taken from the folder of the file.

    Raises:
        InputError: as :func:`network`; the fault of an unknown name is one of ``file``.
    """
    try:
        return network_spec(beside(file, name))
    except InputError as error:
        # A name that is none has no file of its own: the fault lies in the file that names it.
        faults = (fault if fault.file else replace(fault, file=str(file), key=key) for fault in error.faults)
        raise InputError(faults) from error


def _flat(name: str, index: int, levelled: str | Path) -> Network:
    """The flat network that a level names."""
    spec = named_network(name, levelled, f"levels.{index}.network")
    if not isinstance(spec, NetworkSpec):
        raise fail(levelled, f"levels.{index}.network", name, "must be a flat network, but has levels")
    flat = spec.network()
    if index == 0 and flat.shared:
        raise fail(levelled, "levels.0.network", name, "must not be shared_by_node: this level has no nodes inside")
    return flat
