"""Chakra execution traces of every rank of a plan, with ASTRA-sim's system and network files: the folder ``chakra``.

Ranks of one stage do the same work: they differ in the groups of their collectives and in whom they send to. The work
of a stage is therefore encoded once, and each rank's file is that with its own groups and neighbours. A compute node
has its time as ``num_ops`` at the peak of the system file, which ASTRA-sim (``roofline-enabled``) resolves to
nanoseconds, and in whole microseconds as ``duration_micros``. Collectives and transfers have there what they take alone
on the links of the plan; a simulator finds its own seconds.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from dse.importer.profile.chakra_schema import (
    COLLECTIVE,
    COLLECTIVES,
    COMPUTE,
    RECEIVE,
    SEND,
    VERSION,
    attribute,
    messages,
    record,
)
from dse.plan.check_layers import RankCosts
from dse.plan.check_mesh import Axes, members
from dse.plan.export.step_graph import Axis, Collective, Compute, Transfer, Work, axes_of, step_graph
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from hardware.network import Network
from hardware.operations import CollectiveKind
from hardware.units import GIB, GIGA, TERA

PREFIX = "step"
GROUPS_FILE, NETWORK_FILE, SYSTEM_FILE, MEMORY_FILE, READ_ME = (
    "comm_groups.json", "network.yml", "system.json", "memory.json", "README.txt",
)  # fmt: skip
_ENDPOINT_DELAY_NS = 10
"""ASTRA-sim's examples have it; with 0 it aborts collectives over all ranks."""

Key = Axis | int | None
"""What of a node differs by rank: the group of an axis, the neighbour so many stages on, or nothing."""


class ChakraTraces:
    """The traces of a plan.

    Attributes:
        devices: ranks, and files of traces.
    """

    def __init__(self, problem: PlanProblem, plan: TrainingPlan) -> None:
        self.problem, self.plan, self.devices = problem, plan, plan.devices
        self._costs = RankCosts(problem, plan)
        self._mesh, self._axes = self._costs.mesh, axes_of(self._costs)
        self._seconds: dict[tuple[CollectiveKind, Axis, float], float] = {}
        self._peak_flops = problem.system.chip.peak_flops[problem.precision]

    @cached_property
    def size_bytes(self) -> int:
        """Of all traces together, about: those of the first rank of each stage, times its ranks."""
        ranks = self.devices // self.plan.pipeline
        return ranks * sum(len(self.content(self._first_rank(stage))) for stage in range(self.plan.pipeline))

    def write(self, folder: Path) -> None:
        """Write a file for each rank, in turn, and those of the simulator.

        Raises:
            OSError: the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.devices):
            (folder / f"{PREFIX}.{rank}.et").write_bytes(self.content(rank))
        for name, text in self.simulator_files().items():
            (folder / name).write_text(text, encoding="utf-8")

    def content(self, rank: int) -> bytes:
        """The file of a rank."""
        own = self._of_rank(rank)
        parts = [_message(messages().metadata(version=VERSION).SerializeToString())]
        for body, key in self._pieces(self._stage(rank)):
            parts.append(body if key is None else record(len(body) + len(own[key])) + body + own[key])
        return b"".join(parts)

    def simulator_files(self) -> dict[str, str]:
        """By name, what ASTRA-sim reads beside the traces."""
        levels = self._levels()
        count, chip = len(levels), self.problem.system.chip
        network: dict[str, list[Any]] = {
            "topology": ["Switch"] * count,
            "npus_count": [each for each, _ in levels],
            # ASTRA-sim takes a GB/s for 2^30 bytes a second.
            "bandwidth": [round(level.bytes_per_s * self.problem.stack.link.value / GIB, 3) for _, level in levels],
            "latency": [round(1e9 * level.latency_s, 1) for _, level in levels],
        }
        system = {
            "scheduling-policy": "LIFO",
            "endpoint-delay": _ENDPOINT_DELAY_NS,
            "active-chunks-per-dimension": 1,
            "preferred-dataset-splits": 1,
            **{
                f"{kind}-implementation": ["ring"] * count
                for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
            },
            "collective-optimization": "localBWAware",
            "local-mem-bw": round(chip.hbm_bytes_per_s / GIGA, 1),
            "boost-mode": 0,
            "roofline-enabled": 1,
            "peak-perf": self._peak_flops / TERA,
        }
        return {
            GROUPS_FILE: json.dumps({str(number): ranks for ranks, number in self._groups.items()}),
            NETWORK_FILE: "".join(f"{key}: [{', '.join(map(str, values))}]\n" for key, values in network.items()),
            SYSTEM_FILE: json.dumps(system, indent=2) + "\n",
            MEMORY_FILE: json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}) + "\n",
            READ_ME: _READ_ME.format(name=self.problem.name, plan=self.plan.text(), last=self.devices - 1),
        }

    # Ranks ------------------------------------------------------------------------------------------------------------

    def _stage(self, rank: int) -> int:
        return rank // self._mesh.stride("pipeline") % self.plan.pipeline

    def _first_rank(self, stage: int) -> int:
        return stage * self._mesh.stride("pipeline")

    def group_of(self, rank: int, axis: Axis) -> tuple[int, ...]:
        """The ranks that a collective of an axis joins, of which ``rank`` is one."""
        return _ranks(rank, self._axes[axis])

    @cached_property
    def _groups(self) -> dict[tuple[int, ...], int]:
        """Numbers of the groups by their ranks; 0 and no number are all ranks, to ASTRA-sim."""
        numbers: dict[tuple[int, ...], int] = {}
        for axes in self._axes.values():
            for rank in range(self.devices):
                if rank == _ranks(rank, axes)[0]:
                    numbers.setdefault(_ranks(rank, axes), len(numbers) + 1)
        return numbers

    def _of_rank(self, rank: int) -> dict[Key, bytes]:
        """What the nodes of a rank have of their own, encoded."""
        node, number = messages().node, messages().attribute
        own: dict[Key, bytes] = {}
        for axis in self._axes:
            group = str(self._groups[self.group_of(rank, axis)])
            own[axis] = node(attr=[attribute("pg_name", group)]).SerializeToString()
        stride, stage, depth = self._mesh.stride("pipeline"), self._stage(rank), self.plan.pipeline
        for step in (1, -1):
            other = rank + ((stage + step) % depth - stage) * stride
            for is_sent in (True, False):
                ends = (rank, other) if is_sent else (other, rank)
                pair = [
                    number(name=name, uint32_val=end) for name, end in zip(("comm_src", "comm_dst"), ends, strict=True)
                ]
                own[_peer(step, is_sent)] = node(attr=pair).SerializeToString()
        return own

    def _levels(self) -> list[tuple[int, Network]]:
        """Accelerators of each dimension of the network, the innermost first; one where nodes are not full."""
        left, inside = self.devices, [self.problem.network]
        while (inner := inside[0].inner) is not None:
            inside.insert(0, inner)
        levels: list[tuple[int, Network]] = []
        for number, each in enumerate(inside):
            outer = inside[number + 1] if number + 1 < len(inside) else None
            width = left if outer is None else outer.inner_accelerators // max(1, self.devices // left)
            if width < 1 or left % width:
                return [(self.devices, self.problem.network)]
            if width > 1:
                levels.append((width, each))
                left //= width
        return levels or [(self.devices, self.problem.network)]

    # Nodes ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _encoded(self) -> dict[int, list[tuple[bytes, Key]]]:
        return {}

    def _pieces(self, stage: int) -> list[tuple[bytes, Key]]:
        """The nodes of a stage: whole records that all its ranks share, and messages to which a rank adds its own."""
        if stage not in self._encoded:
            pieces: list[tuple[bytes, Key]] = []
            for number, work in enumerate(step_graph(self.problem, self.plan, stage).nodes):
                body, key = self._node(number, work)
                if key is None and pieces and pieces[-1][1] is None:
                    pieces[-1] = pieces[-1][0] + _message(body), None
                else:
                    pieces.append((_message(body) if key is None else body, key))
            self._encoded[stage] = pieces
        return self._encoded[stage]

    def _node(self, number: int, work: Work) -> tuple[bytes, Key]:
        """A node as a message, and which part of it differs by rank."""
        node = messages().node(id=number, name=work.what.name, data_deps=work.after)
        node.attr.append(attribute("is_cpu_op", False))
        key: Key = None
        match work.what:
            case Compute(seconds=seconds):
                node.type = COMPUTE
                node.duration_micros = round(1e6 * seconds)
                node.attr.append(attribute("num_ops", max(1, round(seconds * self._peak_flops))))
                node.attr.append(attribute("tensor_size", 1))
            case Collective(kind=kind, axis=axis, size_bytes=size):
                node.type = COLLECTIVE
                count = members(self._axes[axis])
                # Of an all-gather what a rank has, of an all-to-all what it sends; of the others the whole array.
                share = size / count if kind in ("all_gather", "all_to_all") else size
                node.attr.append(attribute("comm_type", COLLECTIVES.index(kind.upper())))
                node.attr.append(attribute("comm_size", max(1, round(share))))
                node.duration_micros = round(1e6 * self._collective_s(kind, axis, size))
                key = axis
            case Transfer(is_sent=is_sent, step=step, tag=tag, size_bytes=size):
                node.type = SEND if is_sent else RECEIVE
                node.attr.append(attribute("comm_size", max(1, round(size))))
                node.attr.append(messages().attribute(name="comm_tag", uint32_val=tag))
                node.duration_micros = round(1e6 * self._costs.neighbour_s(size))
                key = _peer(step, is_sent)
        return node.SerializeToString(), key

    def _collective_s(self, kind: CollectiveKind, axis: Axis, size_bytes: float) -> float:
        """Seconds of a collective, each priced once."""
        call = kind, axis, size_bytes
        if call not in self._seconds:
            self._seconds[call] = self._costs.collective(kind, size_bytes, self._axes[axis])
        return self._seconds[call]


def _peer(step: int, is_sent: bool) -> int:
    """A key for the neighbour that a transfer goes to or comes from."""
    return 2 * step + is_sent


def _ranks(rank: int, axes: Axes) -> tuple[int, ...]:
    """The members of a group, ascending: all that differ from ``rank`` in their places on these axes alone."""
    base = rank - sum(rank // stride % count * stride for count, stride in axes)
    ranks = [base]
    for count, stride in axes:
        ranks = [each + place * stride for each in ranks for place in range(count)]
    return tuple(sorted(ranks))


def _message(content: bytes) -> bytes:
    return record(len(content)) + content


_READ_ME = """{name}
{plan}

step.RANK.et (0 to {last}): the work of each rank in one training step, as Chakra execution traces.
ASTRA-sim, analytical network (congestion-unaware takes several dimensions):

  AstraSim_Analytical_Congestion_Unaware --workload-configuration=step --comm-group-configuration=comm_groups.json \\
    --system-configuration=system.json --network-configuration=network.yml --remote-memory-configuration=memory.json

Compute takes num_ops / peak-perf: the seconds that dse predicts. Collectives are simulated as rings over the links.
"""
