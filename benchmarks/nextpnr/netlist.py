"""The placed netlist: which output drives which input, and where each cell lies. Nothing of its routing."""

import json
import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

BEL = re.compile(r"X(\d+)/Y(\d+)/")


class Kind(IntEnum):
    """What a cell is; a logic cell is a look-up table with or without a register behind it and a carry next to it."""

    TABLE = 0
    TABLE_CARRY = 1
    REGISTER = 2
    REGISTER_CARRY = 3
    RAM = 4
    PIN = 5
    BUFFER = 6


class Port(IntEnum):
    """A port of a cell; all inputs of a RAM are one kind, and so are its outputs, and the ports of a pin."""

    I0 = 0
    I1 = 1
    I2 = 2
    I3 = 3
    CARRY_IN = 4
    ENABLE = 5
    RESET = 6
    INPUT = 7
    OUTPUT = 8
    CARRY_OUT = 9


LOGIC_PORTS = {
    "I0": Port.I0,
    "I1": Port.I1,
    "I2": Port.I2,
    "I3": Port.I3,
    "CIN": Port.CARRY_IN,
    "CEN": Port.ENABLE,
    "SR": Port.RESET,
    "O": Port.OUTPUT,
    "LO": Port.OUTPUT,
    "COUT": Port.CARRY_OUT,
}
OTHER_KINDS = {"ICESTORM_RAM": Kind.RAM, "SB_IO": Kind.PIN, "SB_GB": Kind.BUFFER}


@dataclass(frozen=True)
class Netlist:
    """A packed design: the same for every seed.

    Attributes
    ----------
    names : tuple of str
        Cells, in alphabetical order; an index below is a place in it.
    kinds : array of uint8, shape (cells,)
        ``Kind``.
    used_inputs : array of uint8, shape (cells,)
        Bit i is set where a logic cell's table depends on its input ``Ii``.
    sources, sinks : arrays of int32, shape (connections,)
        The driving and the driven cell of each connection, without those of the clock.
    source_ports, sink_ports : arrays of uint8, shape (connections,)
        ``Port``.
    """

    names: tuple[str, ...]
    kinds: NDArray[np.uint8]
    used_inputs: NDArray[np.uint8]
    sources: NDArray[np.int32]
    source_ports: NDArray[np.uint8]
    sinks: NDArray[np.int32]
    sink_ports: NDArray[np.uint8]


@dataclass(frozen=True)
class Positions:
    """Where the cells of a netlist lie: columns and rows of tiles, each of shape (cells,)."""

    x: NDArray[np.int16]
    y: NDArray[np.int16]


def read_placed(text: str) -> tuple[Netlist, Positions]:
    """Reads what ``nextpnr-ice40 --write`` writes.

    Only cell types, parameters, connections and ``NEXTPNR_BEL`` are read. The nets' attribute ``ROUTING`` is not, so a
    file written after routing gives what one written before it gives.

    Raises
    ------
    ValueError
        A cell has an unknown type or no place.
    """
    cells = dict(sorted(json.loads(text)["modules"]["top"]["cells"].items()))
    drivers: dict[int, tuple[int, Port]] = {}
    loads: list[tuple[int, int, Port]] = []
    kinds, used_inputs, places = [], [], []
    for index, (name, cell) in enumerate(cells.items()):
        kinds.append(_kind(name, cell))
        used_inputs.append(_used_inputs(cell["parameters"].get("LUT_INIT", "0")))
        place = BEL.match(cell["attributes"].get("NEXTPNR_BEL", ""))
        if place is None:
            raise ValueError(f"cell {name}: must be placed, but has no NEXTPNR_BEL")
        places.append((int(place[1]), int(place[2])))
        for port, bits in cell["connections"].items():
            if not bits or port.endswith("CLK"):
                continue
            if cell["port_directions"][port] == "output":
                drivers[bits[0]] = (index, _port(port, cell))
            elif cell["port_directions"][port] == "input":
                loads.append((bits[0], index, _port(port, cell)))
    rows = [(*drivers[net], sink, port) for net, sink, port in loads if net in drivers]
    table = np.array(sorted(rows), dtype=np.int32).reshape(-1, 4)
    netlist = Netlist(
        tuple(cells),
        np.array(kinds, dtype=np.uint8),
        np.array(used_inputs, dtype=np.uint8),
        table[:, 0].copy(),
        table[:, 1].astype(np.uint8),
        table[:, 2].copy(),
        table[:, 3].astype(np.uint8),
    )
    x, y = np.array(places, dtype=np.int16).reshape(-1, 2).T.copy()
    return netlist, Positions(x, y)


def _kind(name: str, cell: dict) -> Kind:
    if cell["type"] == "ICESTORM_LC":
        flags = [int(cell["parameters"].get(key, "0"), 2) for key in ("DFF_ENABLE", "CARRY_ENABLE")]
        return Kind(2 * flags[0] + flags[1])
    if cell["type"] not in OTHER_KINDS:
        raise ValueError(
            f"cell {name}: type must be one of ICESTORM_LC, {', '.join(OTHER_KINDS)}, but is {cell['type']}"
        )
    return OTHER_KINDS[cell["type"]]


def _used_inputs(table: str) -> int:
    """Bit i is set where some outcome of the truth table, the last row first, changes with input i."""
    outcomes = int(table, 2)
    return sum(
        1 << bit for bit in range(4) if any((outcomes >> row ^ outcomes >> (row ^ 1 << bit)) & 1 for row in range(16))
    )


def _port(port: str, cell: dict) -> Port:
    if cell["type"] == "ICESTORM_LC":
        return LOGIC_PORTS[port]
    return Port.OUTPUT if cell["port_directions"][port] == "output" else Port.INPUT
