"""Networks between accelerators: what a transfer and a ring collective cost.

A network is described by ``specs/networks/*.yaml``. Every collective is a ring: ``steps`` messages one after the
other, each of ``bytes / participants``. A message may be split over several channels (rings that run side by side);
each channel adds its latency to every step and brings its share of the bandwidth, so more channels pay only for
larger messages:

    time = launch + min over n in [1, channels] of (steps · n · latency + wire_bytes · channels / (n · bandwidth))

For each n this is an α–β line, and the minimum of lines that rise with the bytes rises too. A network of one channel
is the plain α–β model, ``launch + steps · latency + wire_bytes / bandwidth``.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hardware.operations import CollectiveKind
from hardware.spec_fields import Choice, Count, NonNegative, Quantity, Source, StrictModel, read_spec, spec_names

_FOLDER = "networks"


@dataclass(frozen=True)
class Network:
    """A network as one accelerator sees it.

    ``bytes_per_s`` is the sustained rate of one accelerator in one direction, all its links together. Rings are taken
    to use all links (several rings side by side where the links lead to different neighbours). ``latency_s`` is paid
    per step and channel, ``launch_s`` once per transfer or collective. ``additions_included``: the constants are of
    measured collectives, whose time holds their additions too.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    launch_s: float = 0.0
    channels: int = 1
    additions_included: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bytes_per_s) and self.bytes_per_s > 0):
            raise ValueError(f"`bytes_per_s` must be positive and finite, but got {self.bytes_per_s}")
        for name, value in (("latency_s", self.latency_s), ("launch_s", self.launch_s)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{name}` must be finite and not negative, but got {value}")
        if self.channels < 1:
            raise ValueError(f"`channels` must be at least 1, but got {self.channels}")

    def transfer_s(self, size_bytes: float) -> float:
        """Seconds to send ``size_bytes`` from one accelerator to another; 0 for nothing.

        Raises:
            ValueError: ``size_bytes`` is negative.
        """
        return self._ring_s(1, size_bytes)

    def collective_s(self, kind: CollectiveKind, size_bytes: float, participants: int) -> float:
        """Seconds of a ring collective over ``participants`` accelerators; 0 for a single one.

        ``size_bytes`` is the full tensor on each of them: the input of an all-reduce or a reduce-scatter, the output
        of an all-gather. An all-reduce takes 2 · (participants − 1) steps, the other two half of that; each step
        moves ``size_bytes / participants`` (Thakur, Rabenseifner, Gropp 2005, section 4). Additions are not in it,
        unless ``additions_included``.

        Raises:
            ValueError: ``size_bytes`` is negative or ``participants`` below 1.
        """
        if participants < 1:
            raise ValueError(f"`participants >= 1` must hold, but got {participants}")
        steps = (2 if kind == "all_reduce" else 1) * (participants - 1)
        return self._ring_s(steps, size_bytes / participants)

    def _ring_s(self, steps: int, step_bytes: float) -> float:
        if step_bytes < 0:
            raise ValueError(f"`size_bytes >= 0` must hold, but got {step_bytes}")
        if steps == 0 or step_bytes == 0:
            return 0.0
        used = used_channels(step_bytes, self.bytes_per_s, self.latency_s, self.channels)
        channel_s = step_bytes * self.channels / (used * self.bytes_per_s)
        return self.launch_s + steps * (used * self.latency_s + channel_s)


def used_channels(step_bytes: float, bytes_per_s: float, latency_s: float, channels: int) -> float:
    """The number of channels that carries a step of ``step_bytes`` fastest.

    Between 1 and ``channels``, and not rounded: libraries also split a message unevenly.
    """
    if latency_s == 0:
        return float(channels)
    best = math.sqrt(step_bytes * channels / (bytes_per_s * latency_s))
    return min(max(best, 1.0), float(channels))


class _NonNegativeQuantity(StrictModel):
    value: NonNegative
    source: Source


class _Share(StrictModel):
    value: Annotated[float, Field(gt=0, le=1)]
    source: Source


class NetworkSpec(StrictModel):
    """A network spec as it is written; each constant is ``{value: …, source: …}``.

    ``link_bytes_per_s`` is one link in one direction; ``efficiency`` the sustained share of ``links`` of them.
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

    def network(self) -> Network:
        """The network that the spec describes."""
        return Network(
            name=self.name,
            bytes_per_s=self.links.value * self.link_bytes_per_s.value * self.efficiency.value,
            latency_s=self.latency_s.value,
            launch_s=self.launch_s.value,
            channels=self.channels.value,
            additions_included=self.additions_included.value,
        )


def list_networks() -> list[str]:
    """Names of the networks that come with the package, sorted."""
    return spec_names(_FOLDER)


def network(name_or_path: str | Path) -> Network:
    """The network of this name, or the one that a YAML or JSON file describes.

    Raises:
        InputError: no network of this name (with the nearest one), or a file that breaks a rule.
    """
    return network_spec(name_or_path).network()


def network_spec(name_or_path: str | Path) -> NetworkSpec:
    """The spec behind :func:`network`, with the source of each constant; raises as that does."""
    return read_spec(_FOLDER, name_or_path, NetworkSpec, "network")
