"""What the text of Auto-MAP says in addition to its tables: of VGG-19, search spaces, memory, and where pipelines are
cut.

Not here: that online inference needs no training on language models and 10,000 episodes on convolutional ones (5.2.4),
which needs a policy (``python -m benchmarks.parallel_finetuning``), and search times, which are in Tables 5 to 7.
"""

from math import ceil, comb, log2

import numpy as np

from dse.report.units import memory_text, share_text
from dse.reproduce.automap.models import BUILT_IN, PIPELINED, step_of, title_of, variables_of
from dse.reproduce.automap.pipelines import SERVER, FoundPipeline, PipelineTrial, equal_parts_s, profiled
from dse.reproduce.automap.published import Configuration, PublishedClaims, read_published
from dse.reproduce.automap.study import Study
from dse.reproduce.section import Comparison, Row, Section, Table, not_measured
from dse.results.result import percent

TITLE = "Section 5.2: claims about models, search spaces, memory and cuts"

_TWICE = "log₂ of the number of operator plans, two for each variable"


def claims(study: Study) -> Section:
    """Every claim that the steps of a run allow to be computed."""
    said = read_published().claims
    tables, notes, comparisons = list[Table](), list[str](), list[Comparison]()
    for made in (_last_layers(study), _spaces(study, said), _memory(study, said), _cuts(study, said)):
        if made is not None:
            table, note, numbers = made
            tables.append(table)
            notes.append(note)
            comparisons += numbers
    if not tables:
        reason = "none of --models is discussed in the text"
        return Section("claims", TITLE, (), (reason,), skipped=reason)
    return Section("claims", TITLE, tuple(tables), tuple(notes), tuple(comparisons))


_Made = tuple[Table, str, list[Comparison]]


def _last_layers(study: Study) -> _Made | None:
    """The share of the fully connected layers of VGG-19 in its parameters and in its time."""
    if "vgg19" not in study.steps:
        return None
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
        comparisons.append(Comparison(title, "", "share of parameters", "", parameters, 0.86))
        cause = not_measured(
            "the paper does not say how it measures time; ours is the profiled forward and backward time"
        )
        comparisons.append(Comparison(title, "", "share of time", "", spent, 0.05, cause=cause))
    note = (
        "“The last two FC layers occupy 86 % of the total parameters while the corresponding calculation time only "
        "accounts for 5 %” (5.2.1). Ours: forward and backward passes on one device."
    )
    headers = ("VGG-19 layers", "share of parameters (paper)", "ours", "share of time (paper)", "ours")
    return Table(headers, tuple(rows)), note, comparisons


def _spaces(study: Study, said: PublishedClaims) -> _Made | None:
    """How many plans there are: two dimensions of each variable, and pipelines of four stages."""
    steps = [step for step in dict.fromkeys((*study.steps, *study.pipelined)) if _paper_name(step) in said.space_bits]
    if not steps:
        return None
    rows, comparisons = list[Row](), list[Comparison]()
    for step in steps:
        printed, graph = said.space_bits[_paper_name(step)], step_of(step)
        twice = 2 * len(graph.trainable)
        dimensions = sum(len(graph.values[each.value].dims) for each in graph.trainable)
        ours = (f"2^{twice}", f"2^{dimensions}", _pipelines_text(study, step))
        rows.append((title_of(step), f"2^{printed}", *ours))
        nearest = min(twice, dimensions, key=lambda bits: abs(bits - printed))
        what = "log₂ of the number of operator plans, dimensions" if nearest == dimensions else _TWICE
        comparisons.append(Comparison(title_of(step), "", what, "", float(nearest), float(printed)))
    note = (
        "“188 trainable variables with at most two dimensions each, leads to a 376 binary vector” (5.2.1), but 1,116 "
        "is the number of dimensions that T5-3B has with a third position table, not two for each variable. 188 "
        "variables with those of Table 3 have 288 dimensions, not 314: layers of Table 3 alone have 84 vectors, and "
        "314 dimensions allow 62. Pipelines: four stages, with device cuts at most 3 from equal stages. The exact "
        "searches find proven optima (Tables 5, 7)."
    )
    headers = ("", "operator plans (paper)", "twice the variables", "dimensions", "pipelines on configuration C (ours)")
    return Table(headers, tuple(rows)), note, comparisons


def _pipelines_text(study: Study, step: str) -> str:
    if step not in study.pipelined:
        return "–"
    _, profile, _ = profiled(step, study.machine.accelerator)
    return f"2^{log2(comb(profile.points - 1, 3) * 7**3):.0f}"


def _memory(study: Study, said: PublishedClaims) -> _Made | None:
    """How many devices the variables of a step need at least, evenly split."""
    steps = [step for step in study.pipelined if _paper_name(step) in said.min_devices]
    if not steps:
        return None
    memory_bytes, rows, comparisons = study.memory_bytes, list[Row](), list[Comparison]()
    for step in steps:
        graph, printed = step_of(step), said.min_devices[_paper_name(step)]
        sizes = dict.fromkeys(("parameter", "state"), 0)
        for argument in graph.arguments:
            if argument.role in sizes:
                sizes[argument.role] += graph.values[argument.value].size_bytes
        weights, all_bytes = sizes["parameter"], sum(sizes.values())
        devices = [ceil(each / memory_bytes) for each in (weights, all_bytes)]
        rows.append((title_of(step), f"{printed} or more", memory_text(weights), *map(str, devices)))
        for what, ours in zip(("the weights", "weights and moments"), devices, strict=True):
            quantity = f"minimum number of devices for {what}"
            reason = "the paper does not say what memory it counts"
            comparisons.append(Comparison(title_of(step), "", quantity, "", float(ours), float(printed), reason))
    note = (
        "“T5-3B needs at least two devices to load balance its variables and T5-11B consumes more devices” (5.2.2). "
        f"Ours: bytes divided by the {memory_text(memory_bytes)} of a device, without gradients and activations."
    )
    headers = ("", "devices (paper)", "weights", "devices for weights", "for weights and Adam moments")
    return Table(headers, tuple(rows)), note, comparisons


def _cuts(study: Study, said: PublishedClaims) -> _Made | None:
    """Whether the proven pipelines are cut between servers, into stages of about equal computing."""
    steps = [step for step in study.pipelined if _paper_name(step) in said.cut_between_servers]
    if not steps:
        return None
    rows, comparisons = list[Row](), list[Comparison]()
    for (step, configuration), of in study.pipelines(("length",), steps).items():
        best = of["length"].best
        between = sum(cut % SERVER == 0 for cut in best.devices)
        largest = _imbalance(study, step, best)
        cuts = len(best.devices)
        name = f"{title_of(step)} on {configuration}"
        rows.append((name, f"{cuts} of {cuts}", f"{between} of {cuts}", f"{largest:.3g}"))
        cause = "" if between == cuts else _excess_between(study, step, configuration, best)
        comparisons.append(
            Comparison(name, "length", "cuts between servers", "", float(between), float(cuts), cause=cause)
        )
        comparisons.append(Comparison(name, "length", "max/mean stage compute", "", largest, None))
    note = (
        "“All strategies on Config A, B and C proved that the cutting should be happened on the network boundaries”, "
        "into “almost uniform stages” (5.2.3). Ours: proven shortest pipelines, compute time per device of each stage."
    )
    headers = ("", "between servers (paper)", "ours", "max/mean stage compute")
    return Table(headers, tuple(rows)), note, comparisons


def _excess_between(study: Study, step: str, configuration: Configuration, best: FoundPipeline) -> str:
    """How much longer the shortest pipeline is that is cut between servers alone."""
    machine = (study.machine.accelerator, study.machine.network)
    between_s = equal_parts_s(PipelineTrial(step, configuration, "length", "equal", *machine))
    return (
        f"with cuts only between servers, the shortest pipeline takes {percent(between_s / best.length_s - 1)} longer"
    )


def _imbalance(study: Study, step: str, best: FoundPipeline) -> float:
    """The most computing that a device has to do, over the mean of all devices."""
    _, profile, _ = profiled(step, study.machine.accelerator)
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + profile.backward_s)))
    ends = [0, *(round(share * profile.points) for share in best.shares), profile.points]
    devices = SERVER * (len(best.devices) + 1)
    own = np.diff(work_s[ends]) / np.diff([0, *best.devices, devices])
    return float(own.max() / (work_s[-1] / devices))


def _paper_name(step: str) -> str:
    return {**BUILT_IN, **PIPELINED}.get(step, "")
