"""Tables 7 and 8, and Figures 11 to 15: where steps are cut into pipelines, next to the paper's cuts."""

from collections.abc import Mapping, Sequence

import numpy as np

from dse.parallel.pipeline.problem import Floats
from dse.report.units import memory_text, time_text
from dse.reproduce.automap.models import PIPELINED, title_of
from dse.reproduce.automap.pipelines import (
    OBJECTIVES,
    FoundPipeline,
    PipelineOutcome,
    PipelineTrial,
    at_boundaries_s,
    profile_of_batch,
    stages_as_cut,
)
from dse.reproduce.automap.published import Configuration, read_published
from dse.reproduce.automap.study import Study
from dse.reproduce.section import OTHER_MACHINE, Chart, Comparison, Row, Section, Series, Table
from dse.results.result import percent

PIPELINE_TITLES: Mapping[str, str] = {
    "table7": "Table 7: cuts of pipelines and devices",
    "table8": "Table 8: boundaries of four-stage pipelines, in 128 points",
    "figure11": "Figure 11: all-reduce time of each stage by number of cuts",
    "figure12": "Figures 12 to 15: compute time of a step, raw and as network input",
}

_GIB = 2**30

EXCESS = "excess of the paper's plan"
"""A quantity of comparisons."""


def training(study: Study) -> Section:
    """Table 7: our proven plans next to the paper's, and the objective under which the paper's is best."""
    if not study.pipelined:
        return _skipped("table7")
    outcomes = study.pipelines(tuple(OBJECTIVES))
    rows, comparisons = list[Row](), list[Comparison]()
    for (step, configuration), of in outcomes.items():
        printed = read_published().pipelines.row(PIPELINED[step], configuration)
        own = of["length"]
        theirs = ("does not fit" if PIPELINED[step] == "T5-11B" else "–", "–", "–")
        if printed is not None:
            theirs = (", ".join(printed.layers), _numbers(printed.devices), f"{printed.seconds:g}")
        ours = (", ".join(own.best.layers), _numbers(own.best.devices), f"{own.seconds:.2f}")
        rows.append((title_of(step), configuration, *theirs, *ours, *_nearest(of)))
        what = f"{title_of(step)} on {configuration}"
        seconds = None if printed is None else printed.seconds
        comparisons.append(Comparison(what, "length", "time to plan", "s", own.seconds, seconds, OTHER_MACHINE))
        comparisons.append(Comparison(what, "length", "length of the optimal plan", "s", own.best.length_s, None))
        for name, outcome in of.items():
            comparisons.append(Comparison(what, name, EXCESS, "", outcome.excess, None))
    headers = (
        "",
        "on",
        "paper: layers",
        "devices",
        "s",
        "ours: layers",
        "devices",
        "CPU s",
        "paper's plan",
        "best under",
    )
    excesses = Table(("", "on", *OBJECTIVES), tuple(_excesses(*each) for each in outcomes.items()))
    table, devices = _searched(study, outcomes)
    tables = [Table(headers, tuple(rows)), excesses, table]
    comparisons += devices
    notes = [
        *(f"{name}: {objective.text}." for name, objective in OBJECTIVES.items()),
        "Paper's plan: by how much the best plan with cuts in the paper's layers and with its device cuts is longer; "
        "best under: the objective for which this plan is closest to the optimum. Device cuts are at most 3 from "
        "equal stages, as in the paper; all our plans are proven optimal.",
        "The paper's search: a pivot implies as many devices in front of it as its share of compute time (4.4), and "
        "every stage is the first to read some variable (5.2.3); longer: than with free pivots.",
        "Layers are counted from 0. The paper's cuts are only given as nearby layers; it does not print its steps "
        "and costs.",
    ]
    if "t5-11b" in study.pipelined:
        tables.append(_memory(study))
        notes.append(
            "Minimum memory per device for T5-11B with one stage per server, by counted state / counted activations. "
            "In "
            "the paper it fits in four stages and no fewer, on V100s whose memory it does not state."
        )
    return Section("table7", PIPELINE_TITLES["table7"], tuple(tables), tuple(notes), tuple(comparisons))


def _searched(
    study: Study, outcomes: Mapping[tuple[str, Configuration], Mapping[str, PipelineOutcome]]
) -> tuple[Table, list[Comparison]]:
    """The shortest pipelines of the paper's search space next to its plans."""
    rows, comparisons = list[Row](), list[Comparison]()
    for (step, configuration), of in study.searched().items():
        printed = read_published().pipelines.row(PIPELINED[step], configuration)
        theirs = "–" if printed is None else _numbers(printed.devices)
        if of.best is None:
            rows.append((title_of(step), configuration, theirs, "no plan", "–", "–"))
            continue
        found, free_s = of.best, outcomes[step, configuration]["length"].best.length_s
        longer = _excess(found.length_s / free_s - 1)
        rows.append((title_of(step), configuration, theirs, _numbers(found.devices), ", ".join(found.layers), longer))
        cause = "no pivots imply the paper's device cuts"
        if of.printed_s is not None:
            excess = percent(of.printed_s / found.length_s - 1)
            cause = f"in this search space, the shortest pipeline with the paper's device cuts takes {excess} longer"
        for number, own in enumerate(found.devices):
            paper = None if printed is None else float(printed.devices[number])
            name, what = f"{title_of(step)} on {configuration}", f"device cut {number + 1} of the paper's search"
            comparisons.append(Comparison(name, "length", what, "", float(own), paper, cause=cause))
    return Table(("", "on", "paper: devices", "paper's search: devices", "layers", "longer"), tuple(rows)), comparisons


def _nearest(of: Mapping[str, PipelineOutcome]) -> Row:
    """The excess of the paper's plan under length, and the objective under which it is least."""
    known = {name: each.excess for name, each in of.items() if each.excess is not None}
    if not known:
        return ("–", "–")
    best = min(known, key=lambda name: known[name])
    return _excess(known["length"]), f"{best} ({_excess(known[best])})"


def _excess(share: float | None) -> str:
    if share is None:
        return "–"
    return "optimal" if share <= 1e-9 else f"+{percent(share)}"


def _excesses(where: tuple[str, Configuration], of: Mapping[str, PipelineOutcome]) -> Row:
    step, configuration = where
    return (title_of(step), configuration, *(_excess(of[name].excess) for name in OBJECTIVES))


def _memory(study: Study) -> Table:
    """What T5-11B needs at least on a device, under several ways of counting."""
    needed = study.memory("t5-11b")
    rows = []
    for state in ("weights", "gradients", "optimizer"):
        for activations in ("none", "recomputed", "kept"):
            bytes_of = [needed[configuration, state, activations] for configuration in ("A", "B", "C")]
            fitting = [
                f"{limit} GB"
                for limit in (16, 32)
                if [each <= limit * _GIB for each in bytes_of] == [False, False, True]
            ]
            texts = (memory_text(each, 3) for each in bytes_of)
            rows.append((f"{state} / {activations}", *texts, ", ".join(fitting) or "no"))
    return Table(("t5-11b", "2 stages", "3 stages", "4 stages", "only 4 stages fit in"), tuple(rows))


def inference(study: Study) -> Section:
    """Table 8: our optimal boundaries on configuration C next to the paper's."""
    printed = read_published().pipelines.inference
    steps = [step for step in study.pipelined if PIPELINED[step] in printed.models]
    if not steps:
        return _skipped("table8")
    outcomes = study.pipelines(("length", "instructions"), steps, ("C",))
    rows, comparisons = list[Row](), list[Comparison]()
    for (step, _), of in outcomes.items():
        for name, outcome in of.items():
            ours = _boundaries(outcome.best, printed.points)
            rows.append(
                (title_of(step), name, _numbers(printed.boundaries), _numbers(ours), ", ".join(outcome.best.layers))
            )
            cause = "" if ours == [*printed.boundaries] else _excess_of_paper(study, step, name, outcome.best)
            for number, (own, theirs) in enumerate(zip(ours, printed.boundaries, strict=True), 1):
                comparisons.append(
                    Comparison(
                        title_of(step),
                        name,
                        f"boundary {number} of {printed.points}",
                        "",
                        float(own),
                        float(theirs),
                        cause=cause,
                    )
                )
    headers = ("", "objective", "paper", "ours", "our layers")
    notes = (
        "Boundaries as shares of the points of the forward pass, in units of 1/128. The paper's are the same for all "
        "three models: a quarter for each stage, plus 2/128.",
    )
    return Section("table8", PIPELINE_TITLES["table8"], (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def _excess_of_paper(study: Study, step: str, objective: str, best: FoundPipeline) -> str:
    """How much longer the pipeline is that is cut at the paper's boundaries."""
    printed = read_published().pipelines.inference
    trial = PipelineTrial(step, "C", objective, "equal", study.machine.accelerator, study.machine.network)
    theirs_s = at_boundaries_s(trial, [each / printed.points for each in printed.boundaries])
    longer = percent(theirs_s / best.length_s - 1)
    return f"with the paper's boundaries, which are the same for all models, the pipeline takes {longer} longer"


def _boundaries(pipeline: FoundPipeline, points: int) -> list[int]:
    return [round(share * points) for share in pipeline.shares]


def all_reduces(study: Study) -> Section:
    """Figure 11: with each further cut, the all-reduce of every stage."""
    if not study.pipelined:
        return _skipped("figure11")
    rows, charts = list[Row](), list[Chart]()
    for step in study.pipelined:
        lengths = stages_as_cut(step, (study.machine.accelerator, study.machine.network))
        series = []
        for count, of in enumerate(lengths):
            times = tuple(1e3 * each.all_reduce_s for each in of.stages)
            names = tuple(f"stage {number + 1}" for number in range(len(times)))
            series.append(Series(f"{count} cuts" if count != 1 else "1 cut", names, times))
            rows.append(
                (
                    title_of(step),
                    str(count),
                    *(time_text(each.all_reduce_s, 3) for each in of.stages),
                    *("",) * (3 - count),
                )
            )
        charts.append(Chart("bars", f"All-reduce times of {title_of(step)}", "", "ms", tuple(series), logarithmic=True))
    table = Table(("", "cuts", "stage 1", "stage 2", "stage 3", "stage 4"), tuple(rows))
    note = (
        "The cuts of the best plan for configuration C are added one by one; the last stage is the uncut remainder. A "
        "stage that spans servers reduces its gradients over Ethernet."
    )
    return Section("figure11", PIPELINE_TITLES["figure11"], (table,), (note,), (), tuple(charts))


def computing(study: Study) -> Section:
    """Figures 12 to 15: C of each instruction, its prefix sum, at 128 points, and scaled with A and W."""
    if not study.pipelined:
        return _skipped("figure12")
    step = study.pipelined[0]
    profile = profile_of_batch(step, study.machine.accelerator)
    work_s = profile.forward_s + profile.backward_s
    total_s = np.concatenate(([0.0], np.cumsum(work_s)))
    weights = np.concatenate(([0], np.cumsum(profile.weight_bytes))).astype(np.float64)
    points = read_published().pipelines.inference.points
    at = np.linspace(0, profile.points, points).round().astype(np.int64)
    arrays = {"C*": total_s[at] * 1e3, "A*": profile.cut_bytes[at] / 1e6, "W*": weights[at] / 1e6}
    largest = max(float(each.max()) for each in arrays.values())
    charts = (
        _lines("Figure 12: time of each instruction", "instruction", "ms", {"C": work_s * 1e3}),
        _lines("Figure 13: its prefix sum", "instruction", "ms", {"C'": total_s * 1e3}),
        _lines("Figure 14: at 128 points", "point", "ms", {"C''": arrays["C*"]}),
        _lines("Figure 15: scaled to [0, 1]", "point", "", {name: each / largest for name, each in arrays.items()}),
    )
    rows = (
        ("points of the forward pass", f"{profile.points:,}"),
        ("batch time on one device", time_text(float(total_s[-1]))),
        ("longest instruction", time_text(float(work_s.max()))),
        ("weights", memory_text(float(weights[-1]))),
        ("largest transfer at a cut, one way", memory_text(float(profile.cut_bytes.max()))),
    )
    note = (
        "The paper scales all three arrays by their common largest value, so units matter: here ms and MB. Its "
        "step has more than 50,000 instructions, including the backward pass and the update."
    )
    table = Table((title_of(step), ""), rows)
    return Section("figure12", PIPELINE_TITLES["figure12"], (table,), (note,), (), charts)


_MAX_DRAWN = 1500
"""Of the points of a line."""


def _lines(title: str, x: str, y: str, arrays: Mapping[str, Floats]) -> Chart:
    series = []
    for name, values in arrays.items():
        every = -(-len(values) // _MAX_DRAWN)
        places = tuple(float(place) for place in range(0, len(values), every))
        series.append(Series(name, places, tuple(float(each) for each in values[::every])))
    return Chart("lines", title, x, y, tuple(series))


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _skipped(part: str) -> Section:
    reason = f"none of --models is one of {', '.join(PIPELINED)}"
    return Section(part, PIPELINE_TITLES[part], (), (reason,), skipped=reason)
