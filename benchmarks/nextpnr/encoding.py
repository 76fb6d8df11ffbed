"""Placed netlists in the form of placements on a fabric, for the network of ``policies.fabric``.

Cells are units, driven outputs nets, connections routes and tiles links. What each of these needs by itself is the
longest path through it, which a model of paths gives; the network corrects it by what it learns of the surroundings.
Tiles need nothing: they only tell the nets that end there of each other.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.nextpnr.delay_terms import CARRY_CROSSING, WIRE, WIRE_COLUMNS, WIRE_CROWDING, WIRE_FAN_OUT, WIRE_ROWS
from benchmarks.nextpnr.netlist import Kind, Port
from benchmarks.nextpnr.path_model import PathModel
from benchmarks.nextpnr.samples import Sample
from benchmarks.nextpnr.timing_graph import Delay
from policies.fabric.model.encoding import LINK_FEATURES, NET_FEATURES, ROUTE_FEATURES, UNIT_FEATURES, Encoding
from policies.fabric.model.features import FEATURES

Floats = NDArray[np.float64]

MIN_SHARE = 0.01
"""Of the longest path; what has less, or no path through it, counts as this."""
WARM_NS = 0.1
"""A temperature at which paths count that are a few percent shorter than the longest."""
CARRIES = frozenset({Kind.TABLE_CARRY, Kind.REGISTER_CARRY})


def columns_of(names: Sequence[str], slots: Floats, others: Sequence[Floats]) -> NDArray[np.float32]:
    """Features in the columns of a fabric's: ``slots`` in its own, the others in the other ones, zeros in what is left.

    Raises
    ------
    ValueError
        There are more features than columns.
    """
    free = [column for column, name in enumerate(names) if name != "slots"]
    if len(others) > len(free):
        raise ValueError(f"`features <= {len(free)}` must hold beside the slots, but got {len(others)}")
    table = np.zeros((len(slots), len(names)), dtype=np.float32)
    table[:, [*names].index("slots") if "slots" in names else free.pop()] = slots
    for column, values in zip(free, others, strict=False):
        table[:, column] = values
    return table


def encoding(sample: Sample, model: PathModel) -> Encoding:
    """A placed netlist for the network, with the longest paths that ``model`` sees."""
    netlist, graph, wires = sample.run.netlist, sample.graph, sample.wires
    paths = model.paths(sample)
    share = np.log(np.maximum(paths.through_arcs / paths.value, MIN_SHARE))
    cells, connections = len(netlist.kinds), len(netlist.sources)
    least = np.log(MIN_SHARE)
    of_cells, of_connections = np.full(cells, least), np.full(connections, least)
    np.maximum.at(of_connections, graph.connections, share)
    for ends in (netlist.sources, netlist.sinks):
        np.maximum.at(of_cells, ends, of_connections)
    keys = 2 * netlist.sources.astype(np.int64) + (netlist.source_ports == Port.CARRY_OUT)
    _, first, net = np.unique(keys, return_index=True, return_inverse=True)
    return Encoding(
        unit=columns_of(UNIT_FEATURES, of_cells, _cells(sample)),
        net=_nets(sample, of_connections, first, net),
        route=columns_of(ROUTE_FEATURES, of_connections, [np.log1p(wires.columns), np.log1p(wires.rows)]),
        **_tiles(sample, net, len(first)),
        net_source=netlist.sources[first].astype(np.int64),
        route_net=net.astype(np.int64),
        route_sink=netlist.sinks.astype(np.int64),
        operation=np.zeros(cells, np.int64),
        stage=np.zeros(cells, np.int64),
    )


def _cells(sample: Sample) -> list[Floats]:
    netlist = sample.run.netlist
    kinds = [netlist.kinds == kind for kind in (Kind.REGISTER, Kind.REGISTER_CARRY, Kind.RAM)]
    level = np.zeros(len(netlist.kinds))
    np.maximum.at(level, netlist.sinks[sample.graph.connections], sample.graph.levels)
    inputs = np.unpackbits(netlist.used_inputs[:, None], axis=1).sum(axis=1)
    is_carry = np.isin(netlist.kinds, [*CARRIES])
    return [kinds[0] | kinds[1], is_carry, kinds[2], np.log1p(level), inputs / 4]


def _nets(sample: Sample, share: Floats, first: NDArray[np.int64], net: NDArray[np.int64]) -> NDArray[np.float32]:
    wires = sample.wires
    slots, length, crowding = np.full(len(first), -np.inf), np.zeros(len(first)), np.zeros(len(first))
    np.maximum.at(slots, net, share)
    np.maximum.at(length, net, wires.columns + wires.rows)
    np.maximum.at(crowding, net, wires.crowding)
    is_carry = sample.run.netlist.source_ports[first] == Port.CARRY_OUT
    others = [np.log(wires.fan_out[first]), np.log1p(length), np.log1p(crowding), is_carry]
    return columns_of(NET_FEATURES, slots, others)


def _tiles(sample: Sample, net: NDArray[np.int64], nets: int) -> dict[str, NDArray]:
    """Tiles with a cell, and the nets that end in each of them."""
    netlist, positions = sample.run.netlist, sample.run.positions
    _, tile = np.unique(positions.x.astype(np.int64) << 8 | positions.y, return_inverse=True)
    tiles = int(tile.max()) + 1
    pairs = np.unique(np.concatenate([tile[netlist.sources] * nets + net, tile[netlist.sinks] * nets + net]))
    crowding = np.zeros(tiles)
    np.maximum.at(crowding, tile[netlist.sinks], sample.wires.crowding)
    counts = np.bincount(tile, minlength=tiles), np.bincount(pairs // nets, minlength=tiles)
    others = [np.log1p(crowding), *(np.log1p(count) for count in counts)]
    least = np.full(tiles, np.log(MIN_SHARE))
    return {
        "link": columns_of(LINK_FEATURES, least, others),
        "crossing_net": pairs % nets,
        "crossing_link": pairs // nets,
    }


def hand_features(sample: Sample, model: PathModel) -> Floats:
    """The longest path, what it is made of, how many are nearly as long, and the number of cells; padded by zeros."""
    paths = model.paths(sample)
    parts = model.gradient(sample, paths)
    ends = paths.through_arcs[sample.graph.sinks == sample.graph.nodes]
    warm = PathModel(model.unknowns, WARM_NS).period_ns(sample)
    tables = parts[Delay.TABLE_I0 : Delay.TABLE_I3 + 1].sum()
    carries = parts[[Delay.CARRY, CARRY_CROSSING]].sum()
    values = [
        np.log(paths.value),
        tables,
        np.log1p(carries),
        parts[WIRE],
        np.log1p(parts[WIRE_COLUMNS]),
        np.log1p(parts[WIRE_ROWS]),
        parts[WIRE_FAN_OUT] / max(parts[WIRE], 1.0),
        parts[WIRE_CROWDING] / max(parts[WIRE], 1.0),
        (warm - paths.value) / paths.value,
        np.log((ends > 0.9 * paths.value).sum() + 1),
        np.log(len(sample.run.netlist.kinds)),
    ]
    padded = np.zeros(len(FEATURES))
    padded[: len(values)] = values
    return padded
