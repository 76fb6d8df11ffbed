"""Runs as models see them: a timing graph with the terms of its delays, and what the tool says about its clock."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.nextpnr.delay_terms import LAUNCH_TERMS, DelayTerms, delay_terms
from benchmarks.nextpnr.netlist import Netlist, Port
from benchmarks.nextpnr.table import Run
from benchmarks.nextpnr.timing_graph import TimingGraph, Wires, timing_graph, wires
from benchmarks.nextpnr.timing_report import Step


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes
    ----------
    run, graph, wires
        The run, its design's timing graph and its placement's wires.
    terms : DelayTerms
        Of the graph's arcs.
    launches : array of int64, shape (nodes,)
        The unknown value at which a path begins in a node; -1 where none does.
    path : array of int64, shape (steps,)
        The arcs of the critical path after routing. Only models may read it that are trained on this very run.
    period_ns, estimated_ns : float
        The clock period after routing, and the tool's estimate of it before.
    """

    run: Run
    graph: TimingGraph
    wires: Wires
    terms: DelayTerms
    launches: NDArray[np.int64]
    path: NDArray[np.int64]

    @property
    def period_ns(self) -> float:
        """After routing."""
        return 1e3 / self.run.clock.routed_mhz

    @property
    def estimated_ns(self) -> float:
        """The tool's, before routing."""
        return 1e3 / self.run.clock.estimated_mhz


def samples_of(runs: Sequence[Run]) -> list[Sample]:
    """A sample for each run; runs of one design share its graph.

    Raises
    ------
    ValueError
        A critical path is not a path of its timing graph.
    """
    graphs: dict[str, TimingGraph] = {}
    samples = []
    for run in runs:
        graph = graphs.setdefault(run.design, timing_graph(run.netlist))
        of_run = wires(run.netlist, run.positions)
        terms = delay_terms(run.netlist, graph, of_run)
        path = path_arcs(run.netlist, graph, run.clock.steps)
        samples.append(Sample(run, graph, of_run, terms, LAUNCH_TERMS[graph.launches], path))
    return samples


def path_arcs(netlist: Netlist, graph: TimingGraph, steps: Sequence[Step]) -> NDArray[np.int64]:
    """The arcs of a path that is given by its connections.

    Raises
    ------
    ValueError
        They are not a path between two clock edges.
    """
    connections = [step.connection for step in steps]
    nodes = [2 * netlist.sources[at] + (netlist.source_ports[at] == Port.CARRY_OUT) for at in connections]
    arcs = []
    for connection, sink in zip(connections, [*nodes[1:], graph.nodes], strict=True):
        places = np.flatnonzero((graph.connections == connection) & (graph.sinks == sink))
        if len(places) != 1:
            raise ValueError(
                f"connection {connection} of a path must lead to node {sink} by one arc, not {len(places)}"
            )
        arcs.append(places[0])
    return np.array(arcs, dtype=np.int64)
