"""Tables 1 and 2: the steps and machines that are planned, next to the paper's."""

import numpy as np

from dse.reproduce.automap.models import BUILT_IN, PIPELINED, step_of, title_of
from dse.reproduce.automap.pipelines import SERVER
from dse.reproduce.automap.published import read_published
from dse.reproduce.automap.study import Study
from dse.reproduce.section import Comparison, Row, Section, Table
from hardware.network_specs import network

SETUP_TITLES = {
    "table1": "Table 1: models and their parameters",
    "table2": "Table 2: server configurations",
}


def models(study: Study) -> Section:
    """Table 1: parameters of every step next to those of the paper's model."""
    printed = read_published().parameters
    rows, comparisons = list[Row](), list[Comparison]()
    for step in dict.fromkeys((*study.steps, *study.pipelined)):
        graph, name = step_of(step), {**BUILT_IN, **PIPELINED}.get(step)
        ours = sum(int(np.prod(graph.values[each.value].dims)) for each in graph.trainable)
        paper = None if name is None else printed[name]
        rows.append(
            (
                title_of(step),
                name or "–",
                "–" if paper is None else f"{paper / 1e6:,.0f} M",
                f"{ours / 1e6:,.1f} M",
                str(len(graph.trainable)),
                f"{len(graph.operations):,}",
            )
        )
        comparisons.append(Comparison(title_of(step), "", "parameters", "", float(ours), paper))
    notes = (
        "The paper's T5-base is not the published one with 220 M parameters: it has 51 M and 188 variables. t5-base "
        "here has six encoder and six decoder layers of width 512 and inner width 1,024, 37,888 words, and a third "
        "table of positions: its sizes follow from Tables 1, 3 and 7.",
    )
    headers = ("", "paper's model", "paper", "ours", "variables", "operations")
    return Section("table1", SETUP_TITLES["table1"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def machines(study: Study) -> Section:
    """Table 2: servers and the rates of their links."""
    published = read_published().pipelines
    rows, comparisons = list[Row](), list[Comparison]()
    for name, servers in published.servers.items():
        joined = network(study.machine.network).spanning(SERVER * servers)
        between = joined.bytes_per_s * 8e-9
        inside = f"{joined.node_bytes_per_s / 1e9:,.0f} GB/s"
        rows.append((name, str(servers), str(SERVER), "NVLink", inside, "25 Gb/s", f"{between:,.3g} Gb/s"))
        comparisons.append(Comparison(name, "", "between servers", "Gb/s", between, 25.0))
    headers = ("configuration", "servers", "devices of each", "inside (paper)", "inside", "between (paper)", "between")
    notes = (f"Ours: sustained rates of {study.machine.network}; the paper does not state the rate inside a server.",)
    return Section("table2", SETUP_TITLES["table2"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))
