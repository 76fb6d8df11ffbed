"""Collectives of many sizes at once: :meth:`hardware.network.Network.collective_s` for an array of bytes."""

import math

import numpy as np
from numpy.typing import NDArray

from hardware.network import Line, Network
from hardware.operations import CollectiveKind

Floats = NDArray[np.float64]


def collective_seconds(
    network: Network, kind: CollectiveKind, sizes_bytes: Floats, participants: int, stride: int = 1
) -> Floats:
    """Seconds of each collective, where every rank of the machine takes part: ``stride`` groups run at once.

    Args:
        network: what joins the ranks.
        kind: of the collectives; no permute.
        sizes_bytes: [P], the full tensor of each (:meth:`~hardware.network.Network.collective_s`).
        participants: accelerators of each.
        stride: ranks between two of them.
    """
    return _collective(network, kind, sizes_bytes, participants, stride, stride)


def transfer_seconds(network: Network, sizes_bytes: Floats) -> Floats:
    """Seconds of each transfer between two ranks of different nodes of the outermost level; [P]."""
    return _ring(network.line("permute"), sizes_bytes / network.transfer_share, steps=1)


def _collective(
    network: Network, kind: CollectiveKind, sizes: Floats, participants: int, stride: int, groups: int
) -> Floats:
    if participants == 1:
        return np.zeros_like(sizes)
    width = network.inner_accelerators
    together = min(participants, max(1, width // stride))
    if network.inner is not None and together == participants:
        return _collective(network.inner, kind, sizes, participants, stride, groups)
    nodes = math.ceil(participants / together)
    sharing = min(max(1, width), groups * together) if network.shared else 1
    if network.inner is None or together == 1:
        return _level(network, kind, sizes, nodes, sharing)
    outer = _level(network, kind, sizes / together, nodes, sharing)
    if kind == "all_reduce":
        halves = (_collective(network.inner, half, sizes, together, stride, groups) for half in _HALVES)
        return outer + sum(halves)
    inside = sizes / nodes if kind == "all_to_all" else sizes
    return outer + _collective(network.inner, kind, inside, together, stride, groups)


_HALVES: tuple[CollectiveKind, CollectiveKind] = ("reduce_scatter", "all_gather")


def _level(network: Network, kind: CollectiveKind, sizes: Floats, participants: int, sharing: int) -> Floats:
    links = min(1.0, participants * network.ring_share) / sharing
    message = sizes / (participants ** (2 if kind == "all_to_all" else 1) * links)
    return _ring(network.line(kind), message, steps=(2 if kind == "all_reduce" else 1) * (participants - 1))


def _ring(line: Line, message_bytes: Floats, steps: int) -> Floats:
    rate, channels = line.bytes_per_s, line.channels
    used: Floats | float = float(channels)
    if line.latency_s > 0:
        used = np.clip(np.sqrt(message_bytes * channels / (rate * line.latency_s)), 1.0, channels)
    seconds = line.launch_s + steps * (used * line.latency_s + message_bytes * channels / (used * rate))
    return np.where(message_bytes > 0, seconds, 0.0)
