"""What nextpnr says about the clock: its estimate before routing, and clock rate and critical path after it."""

import json
import re
from dataclasses import dataclass

from benchmarks.nextpnr.netlist import LOGIC_PORTS, Netlist, Port

MAX_FREQUENCY = re.compile(r"Max frequency for clock '[^']*': ([\d.]+) MHz")


@dataclass(frozen=True)
class Step:
    """One connection of a critical path, and the cell that it leads to.

    ``connection`` is a place in the netlist's connections; ``logic_ps`` is the delay of the driven cell from that input
    to the path's next output, or its setup time at the path's end.
    """

    connection: int
    routing_ps: float
    logic_ps: float


@dataclass(frozen=True)
class Clock:
    """The clock of one routed design.

    ``launch_ps`` is the delay from the clock to the output of the critical path's first register or RAM. The steps' and
    this delay sum up to ``1e6 / routed_mhz``.
    """

    estimated_mhz: float
    routed_mhz: float
    launch_ps: float
    steps: tuple[Step, ...]


def estimated_mhz(log: str) -> float:
    """The clock rate that is printed first, before routing.

    Raises
    ------
    ValueError
        The log does not have two rates.
    """
    rates = [float(rate) for rate in MAX_FREQUENCY.findall(log)]
    if len(rates) != 2:
        raise ValueError(
            f"the log must name the clock rate twice, before and after routing, but names it {len(rates)} times"
        )
    return rates[0]


def read_clock(log: str, report: str, netlist: Netlist) -> Clock:
    """Reads log and ``--report`` of one run.

    Raises
    ------
    ValueError
        There is not exactly one clock, or no path between its edges, or the path has a connection that is not in the
        netlist.
    """
    content = json.loads(report)
    rates = [entry["achieved"] for entry in content["fmax"].values()]
    paths = [path for path in content["critical_paths"] if path["from"] == path["to"] and path["from"] != "<async>"]
    if len(rates) != 1 or len(paths) != 1:
        raise ValueError(f"a design must have one clock, but the report has {len(rates)} rates and {len(paths)} paths")
    launch, *segments = paths[0]["path"]
    index = {name: place for place, name in enumerate(netlist.names)}
    table = zip(netlist.sources, netlist.source_ports, netlist.sinks, netlist.sink_ports, strict=True)
    connections = {tuple(int(number) for number in row): place for place, row in enumerate(table)}
    steps = []
    for routing, logic in zip(segments[::2], segments[1::2], strict=True):
        source, sink = (routing[end] for end in ("from", "to"))
        key = (
            index[source["cell"]],
            LOGIC_PORTS.get(source["port"], Port.OUTPUT),
            index[sink["cell"]],
            LOGIC_PORTS.get(sink["port"], Port.INPUT),
        )
        if routing["type"] != "routing" or key not in connections:
            raise ValueError(f"the netlist must have the path's connection from {source['cell']} to {sink['cell']}")
        steps.append(Step(connections[key], 1e3 * routing["delay"], 1e3 * logic["delay"]))
    return Clock(estimated_mhz(log), rates[0], 1e3 * launch["delay"], tuple(steps))
