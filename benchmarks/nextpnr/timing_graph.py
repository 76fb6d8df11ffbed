"""The timing graph of placed designs: outputs of cells as nodes, and an arc for each input that reaches one of them."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

from benchmarks.nextpnr.netlist import Kind, Netlist, Port, Positions


class Delay(IntEnum):
    """Kinds of delays within cells. Each has one unknown value, regardless of the design."""

    LAUNCH_REGISTER = 0
    LAUNCH_RAM = 1
    TABLE_I0 = 2
    TABLE_I1 = 3
    TABLE_I2 = 4
    TABLE_I3 = 5
    CARRY_I1 = 6
    CARRY_I2 = 7
    CARRY = 8
    SETUP_I0 = 9
    SETUP_I1 = 10
    SETUP_I2 = 11
    SETUP_I3 = 12
    SETUP_ENABLE = 13
    SETUP_RESET = 14
    SETUP_RAM = 15
    BUFFER = 16


@dataclass(frozen=True)
class TimingGraph:
    """The arcs of a netlist, in an order in which each arc comes after all arcs that lead to its source.

    A node is ``2 * cell``, the cell's main output, or ``2 * cell + 1``, its carry. Arcs that end in a register or RAM
    lead to the node ``nodes``, which stands for the next clock edge.

    Attributes
    ----------
    nodes : int
    connections : array of int32, shape (arcs,)
        The connection of the netlist that each arc runs along.
    sources, sinks : arrays of int32, shape (arcs,)
    levels : array of int32, shape (arcs,)
        The largest number of arcs on a path up to and including this one.
    delays : array of uint8, shape (arcs,)
        ``Delay`` within the driven cell.
    launches : array of int8, shape (nodes,)
        ``Delay`` from the clock's edge to the node; -1 where no path begins.
    """

    nodes: int
    connections: NDArray[np.int32]
    sources: NDArray[np.int32]
    sinks: NDArray[np.int32]
    levels: NDArray[np.int32]
    delays: NDArray[np.uint8]
    launches: NDArray[np.int8]


def _arcs_within(kind: Kind, port: Port, is_used: bool) -> tuple[tuple[int | None, Delay], ...]:
    """What an input leads to: (0 main output, 1 carry, None the clock's edge; delay)."""
    arcs: list[tuple[int | None, Delay]] = []
    is_register = kind in (Kind.REGISTER, Kind.REGISTER_CARRY)
    if kind is Kind.RAM:
        arcs.append((None, Delay.SETUP_RAM))
    elif kind is Kind.BUFFER:
        arcs.append((0, Delay.BUFFER))
    elif port in (Port.ENABLE, Port.RESET):
        arcs += [(None, Delay.SETUP_ENABLE if port is Port.ENABLE else Delay.SETUP_RESET)] if is_register else []
    elif port <= Port.I3 and is_used:
        arcs.append((None, Delay(Delay.SETUP_I0 + port)) if is_register else (0, Delay(Delay.TABLE_I0 + port)))
    if kind in (Kind.TABLE_CARRY, Kind.REGISTER_CARRY) and port in (Port.I1, Port.I2, Port.CARRY_IN):
        arcs.append((1, {Port.I1: Delay.CARRY_I1, Port.I2: Delay.CARRY_I2}.get(port, Delay.CARRY)))
    return tuple(arcs)


ARCS = {
    (kind, port, is_used): _arcs_within(kind, port, is_used)
    for kind in Kind
    if kind is not Kind.PIN
    for port in Port
    for is_used in (False, True)
}


def timing_graph(netlist: Netlist) -> TimingGraph:
    """The arcs on paths that begin at a register or RAM; paths from pins and to pins have no part in the clock rate.

    Raises
    ------
    ValueError
        There is a loop without a register.
    """
    nodes = 2 * len(netlist.names)
    launches = np.full(nodes, -1, dtype=np.int8)
    is_register = np.isin(netlist.kinds, (Kind.REGISTER, Kind.REGISTER_CARRY))
    launches[::2][is_register] = Delay.LAUNCH_REGISTER
    launches[::2][netlist.kinds == Kind.RAM] = Delay.LAUNCH_RAM
    rows = []
    table = zip(netlist.sources, netlist.source_ports, netlist.sinks, netlist.sink_ports, strict=True)
    for connection, (source, source_port, sink, sink_port) in enumerate(table):
        origin = 2 * source + (source_port == Port.CARRY_OUT)
        is_used = sink_port <= Port.I3 and bool(netlist.used_inputs[sink] >> sink_port & 1)
        for output, delay in ARCS.get((Kind(netlist.kinds[sink]), Port(sink_port), is_used), ()):
            rows.append((connection, origin, nodes if output is None else 2 * sink + output, delay))
    arcs = np.array(rows, dtype=np.int32).reshape(-1, 4)
    levels = _levels(arcs[:, 1], arcs[:, 2], launches >= 0)
    order = np.argsort(levels, kind="stable")
    order = order[levels[order] > 0]
    arcs, levels = arcs[order], levels[order]
    return TimingGraph(nodes, arcs[:, 0], arcs[:, 1], arcs[:, 2], levels, arcs[:, 3].astype(np.uint8), launches)


def _levels(sources: NDArray[np.int32], sinks: NDArray[np.int32], is_launch: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The level of each arc; 0 where no path leads to it. Registers' outputs are level 0 whatever leads to them."""
    nodes = len(is_launch)
    graph: rx.PyDiGraph[int, int] = rx.PyDiGraph()
    graph.add_nodes_from(range(nodes + 1))
    graph.add_edges_from([(int(a), int(b), place) for place, (a, b) in enumerate(zip(sources, sinks, strict=True))])
    try:
        order = rx.topological_sort(graph)
    except rx.DAGHasCycle as error:
        raise ValueError("the design must not have a loop without a register") from error
    of_node = np.where(np.append(is_launch, False), 0, -1)
    levels = np.zeros(len(sources), dtype=np.int32)
    for node in order:
        if of_node[node] >= 0:
            for _, sink, place in graph.out_edges(node):
                levels[place] = of_node[node] + 1
                of_node[sink] = max(of_node[sink], levels[place])
    return levels


@dataclass(frozen=True)
class Wires:
    """What a placement says about the wire of each connection, all of shape (connections,).

    ``columns`` and ``rows`` are distances in tiles, ``fan_out`` counts the driver's connections, and ``crowding`` is
    the wire demand around both ends, in wires a tile: each net spreads its half perimeter over its bounding box.
    """

    columns: NDArray[np.float64]
    rows: NDArray[np.float64]
    fan_out: NDArray[np.float64]
    crowding: NDArray[np.float64]


def wires(netlist: Netlist, positions: Positions) -> Wires:
    """Distances, fan-outs and wire demand of a placement."""
    source, sink = netlist.sources, netlist.sinks
    x, y = positions.x.astype(np.int64), positions.y.astype(np.int64)
    keys = 2 * source.astype(np.int64) + (netlist.source_ports == Port.CARRY_OUT)
    _, first, net, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    demand = _demand(x, y, sink, net, source[first])
    crowding = (demand[x[source], y[source]] + demand[x[sink], y[sink]]) / 2
    columns, rows = np.abs(x[source] - x[sink]), np.abs(y[source] - y[sink])
    return Wires(columns.astype(float), rows.astype(float), sizes[net].astype(float), crowding)


def _demand(
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    sink: NDArray[np.int32],
    net: NDArray[np.int64],
    drivers: NDArray[np.int32],
) -> NDArray[np.float64]:
    """The half perimeter of each net's bounding box, spread evenly over it, summed for each tile."""
    low = np.stack([x[drivers], y[drivers]])
    high = low.copy()
    for axis, places in enumerate((x, y)):
        np.minimum.at(low[axis], net, places[sink])
        np.maximum.at(high[axis], net, places[sink])
    width, height = high - low + 1
    density = (width + height - 2) / (width * height)
    sums = np.zeros((x.max() + 2, y.max() + 2))
    for column, row, sign in ((low[0], low[1], 1), (low[0], high[1] + 1, -1), (high[0] + 1, low[1], -1)):
        np.add.at(sums, (column, row), sign * density)
    np.add.at(sums, (high[0] + 1, high[1] + 1), density)
    return sums.cumsum(axis=0).cumsum(axis=1)
