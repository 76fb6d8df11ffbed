"""Tables 1 and 2, and what the text says of the models: the steps and machines that are planned beside the paper's."""

import numpy as np

from dse.report.units import share_text
from dse.reproduce.automap.models import BUILT_IN, PIPELINED, step_of, title_of, variables_of
from dse.reproduce.automap.pipelines import SERVER, profiled
from dse.reproduce.automap.published import read_published
from dse.reproduce.automap.study import Study
from dse.reproduce.section import Comparison, Row, Section, Table
from hardware.network_specs import network

SETUP_TITLES = {
    "table1": "Table 1: the models and their parameters",
    "table2": "Table 2: the configurations of servers",
    "claims": "Section 5.2.1: what the text says of VGG-19",
}


def models(study: Study) -> Section:
    """Table 1: parameters of every step beside those of the paper's model."""
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
        "T5-base is not the published T5-base of 220 M parameters: the paper prints 51 M and 188 variables, of which "
        "t5-6 (six layers each way, width 512) is the nearest.",
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
    notes = (f"Ours: the sustained rates of {study.machine.network}; the paper states no rate inside a server.",)
    return Section("table2", SETUP_TITLES["table2"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def claims(study: Study) -> Section:
    """The share of the fully connected layers of VGG-19 in its parameters and in its time."""
    if "vgg19" not in study.steps:
        reason = "none of --models is vgg19"
        return Section("claims", SETUP_TITLES["claims"], (), (reason,), skipped=reason)
    graph, profile, labels = profiled("vgg19", study.machine.accelerator)
    sizes = {each.name: int(np.prod(graph.values[each.value].dims)) for each in graph.trainable}
    time_s = profile.forward_s + profile.backward_s
    variables = variables_of("vgg19")
    rows, comparisons = list[Row](), list[Comparison]()
    for layers in (("fc1", "fc2"), ("fc1", "fc2", "predictions")):
        names = [name for layer in layers for part in ("kernel", "bias") for name in variables[f"{layer}/{part}"]]
        parameters = sum(sizes[name] for name in names) / sum(sizes.values())
        inside = np.array([any(part in layers for part in label.split("/")) for label in labels])
        spent = float(time_s[inside].sum() / time_s.sum())
        title = ", ".join(layers)
        rows.append((title, "86 %", share_text(parameters), "5 %", share_text(spent)))
        comparisons.append(Comparison(title, "", "share of the parameters", "", parameters, 0.86))
        comparisons.append(Comparison(title, "", "share of the time", "", spent, 0.05))
    notes = (
        "“The last two FC layers occupy 86 % of the total parameters while the corresponding calculation time only "
        "accounts for 5 %.” Ours: forward and backward pass on one device.",
    )
    headers = ("layers", "of the parameters (paper)", "ours", "of the time (paper)", "ours")
    return Section("claims", SETUP_TITLES["claims"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))
