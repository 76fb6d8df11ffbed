"""The delay of an arc as a sum of unknown values: one for the cell, some for the wire that leads to it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.nextpnr.netlist import Netlist, Port
from benchmarks.nextpnr.timing_graph import Delay, TimingGraph, Wires

MAX_BIN = 4
"""Distances of more tiles share a bin, and are distinguished by a linear term."""
BINS = (MAX_BIN + 1) ** 2
CARRY_CROSSING, CARRY_TO_TABLE, CARRY_TO_TABLE_CROSSING = range(len(Delay), len(Delay) + 3)
CONTROL, CONTROL_TILES = CARRY_TO_TABLE_CROSSING + 1, CARRY_TO_TABLE_CROSSING + 2
WIRE, WIRE_COLUMNS, WIRE_ROWS, WIRE_FAN_OUT, WIRE_CROWDING = range(CONTROL_TILES + 1, CONTROL_TILES + 6)
FIRST_BIN = WIRE_CROWDING + 1
TERMS = FIRST_BIN + BINS
"""Unknown values: ``Delay``, then wires of carries, of control inputs and RAMs, and of tables' inputs."""
LAUNCH_TERMS = np.array([Delay.LAUNCH_REGISTER, Delay.LAUNCH_RAM, -1])
"""The unknown value of each of ``TimingGraph.launches``; the last is for nodes at which no path begins."""


@dataclass(frozen=True)
class Basis:
    """The unknown values that a model may tell apart: ``matrix @ parameters``.

    Attributes
    ----------
    matrix : array, shape (TERMS, parameters)
    penalties : array, shape (parameters,)
        Of the parameters' squares, in ns², against squared errors in ns².
    """

    matrix: NDArray[np.float64]
    penalties: NDArray[np.float64]


def detailed() -> Basis:
    """Every value by itself, as a deviation: of a cell's from its group's, of a bin's from the linear terms.

    So a kind of delay that no run to learn from has is that of its group.
    """
    groups = np.zeros((TERMS, 3))
    for delay in Delay:
        for column, prefixes in enumerate((("LAUNCH",), ("SETUP",), ("TABLE", "BUFFER", "CARRY"))):
            groups[delay, column] = delay.name.startswith(prefixes)
    penalties = np.full(TERMS, 1e-6)
    penalties[: len(Delay)] = 1e-3
    penalties[WIRE_COLUMNS:FIRST_BIN] = 1e-2
    penalties[FIRST_BIN:] = 1e-1
    return Basis(np.column_stack([np.eye(TERMS), groups]), np.append(penalties, np.full(3, 1e-6)))


def levels_and_distances() -> Basis:
    """Five values: of the clock's edges, a table, a carry, a wire and a tile of its length."""
    groups = (
        [delay for delay in Delay if delay.name.startswith(("LAUNCH", "SETUP"))],
        [delay for delay in Delay if delay.name.startswith(("TABLE", "CARRY_", "BUFFER"))],
        [Delay.CARRY, CARRY_CROSSING],
        [WIRE, CONTROL, CARRY_TO_TABLE],
        [WIRE_COLUMNS, WIRE_ROWS, CONTROL_TILES, CARRY_TO_TABLE_CROSSING],
    )
    matrix = np.zeros((TERMS, len(groups)))
    for column, group in enumerate(groups):
        matrix[group, column] = 1
    return Basis(matrix, np.full(len(groups), 1e-6))


@dataclass(frozen=True)
class DelayTerms:
    """The coefficients of each arc's delay: ``(values * unknowns[indices]).sum(axis=1)``, both of shape (arcs, 7)."""

    indices: NDArray[np.int64]
    values: NDArray[np.float64]

    def delays(self, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Delays, shape (arcs,), from the unknown values, shape (TERMS,)."""
        return (self.values * unknowns[self.indices]).sum(axis=1)

    def weighted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of all arcs' coefficients, weighted, shape (TERMS,)."""
        return np.bincount(self.indices.ravel(), (self.values * weights[:, None]).ravel(), minlength=TERMS)

    def rows(self, arcs: NDArray[np.int64]) -> NDArray[np.float64]:
        """The coefficients of some arcs as a matrix of shape (len(arcs), TERMS)."""
        matrix = np.zeros((len(arcs), TERMS))
        np.add.at(matrix, (np.arange(len(arcs))[:, None], self.indices[arcs]), self.values[arcs])
        return matrix


def delay_terms(netlist: Netlist, graph: TimingGraph, wires: Wires) -> DelayTerms:
    """The terms of each arc of a placed design.

    A wire between two tables has a value for its distance, by columns and rows up to four, and linear terms for its
    length, the logarithm of its fan-out and the wire demand around it. Carries have wires of their own, and so have
    control inputs and RAMs, which are too few for a value by distance.
    """
    at = graph.connections
    columns, rows = wires.columns[at], wires.rows[at]
    is_carry = netlist.source_ports[at] == Port.CARRY_OUT
    to_carry = netlist.sink_ports[at] == Port.CARRY_IN
    to_table = netlist.sink_ports[at] <= Port.I3
    crossing = (columns + rows > 0).astype(float)
    indices = np.zeros((len(at), 7), dtype=np.int64)
    values = np.zeros((len(at), 7))
    indices[:, 0], values[:, 0] = graph.delays, 1

    def put(column: int, chosen: NDArray[np.bool_], term: int | NDArray[np.int64], value: object = 1.0) -> None:
        indices[chosen, column] = np.broadcast_to(term, chosen.shape)[chosen]
        values[chosen, column] = np.broadcast_to(value, chosen.shape)[chosen]

    put(1, is_carry & to_carry, CARRY_CROSSING, crossing)
    put(1, is_carry & ~to_carry, CARRY_TO_TABLE)
    put(2, is_carry & ~to_carry, CARRY_TO_TABLE_CROSSING, crossing)
    put(1, ~is_carry & ~to_table, CONTROL)
    put(2, ~is_carry & ~to_table, CONTROL_TILES, columns + rows)
    plain = ~is_carry & to_table
    nearby = np.minimum(columns, MAX_BIN) * (MAX_BIN + 1) + np.minimum(rows, MAX_BIN)
    put(1, plain, FIRST_BIN + nearby.astype(np.int64))
    put(2, plain, WIRE)
    put(3, plain, WIRE_COLUMNS, columns)
    put(4, plain, WIRE_ROWS, rows)
    put(5, plain, WIRE_FAN_OUT, np.log(wires.fan_out[at]))
    put(6, plain, WIRE_CROWDING, wires.crowding[at])
    return DelayTerms(indices, values)
