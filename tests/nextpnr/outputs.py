"""Stored outputs of the tools, and netlists that are small enough to reason about."""

import json

import numpy as np

from benchmarks.nextpnr.netlist import Kind, Netlist, Port, Positions
from benchmarks.nextpnr.table import Run
from benchmarks.nextpnr.timing_report import Clock, Step
from tests.shared_data import DATA


def counter():
    """The written netlist, the report and the log of a small counter."""
    content = json.loads((DATA / "nextpnr" / "counter.json").read_text())
    return content["netlist"], content["report"], content["log"]


def chain(tables, spacing):
    """A register, tables in a row that each use input I0, and a register that takes the last one's output."""
    cells = tables + 2
    kinds = [Kind.REGISTER, *[Kind.TABLE] * tables, Kind.REGISTER]
    place = np.arange(cells)
    netlist = Netlist(
        tuple(f"cell{index}" for index in place),
        np.array(kinds, dtype=np.uint8),
        np.ones(cells, dtype=np.uint8),
        place[:-1].astype(np.int32),
        np.full(cells - 1, Port.OUTPUT, dtype=np.uint8),
        place[1:].astype(np.int32),
        np.full(cells - 1, Port.I0, dtype=np.uint8),
    )
    return netlist, Positions((spacing * place).astype(np.int16), np.zeros(cells, dtype=np.int16))


LAUNCH_PS, TABLE_PS, SETUP_PS, WIRE_PS, TILE_PS = 500.0, 400.0, 300.0, 200.0, 100.0


def chain_run(family, tables, spacing, seed=1):
    """A run of :func:`chain` whose delays are the constants above."""
    netlist, positions = chain(tables, spacing)
    wire = WIRE_PS + TILE_PS * spacing
    steps = [Step(index, wire, TABLE_PS if index < tables else SETUP_PS) for index in range(tables + 1)]
    period_ps = LAUNCH_PS + sum(step.routing_ps + step.logic_ps for step in steps)
    clock = Clock(1e6 / (1.1 * period_ps), 1e6 / period_ps, LAUNCH_PS, tuple(steps))
    return Run(family, f"{family}-{tables}x{spacing}", seed, netlist, positions, clock)
