"""An answer of ``dse trace`` for people: the verdict, the steps, and what takes the time in them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dse.report.chart import LaneBar, LaneChart
from dse.report.chart_svg import picture_svg
from dse.report.palette import PART_COLOURS
from dse.report.units import counted, share_text, time_scale, time_text
from dse.report.view import Breakdown, Card, Decisive, Heading, Paragraph, Part, Share, Table, View
from dse.results.result import Result
from dse.trace.answer import CUTS, typical_window_s
from dse.trace.classes import CLASSES, COMMUNICATION, COPIES, FILLS
from dse.trace.collectives import clock_sentences, clocks, matched
from dse.trace.problem import Place, RecordedRun

PARTS = {
    "compute_s": "compute",
    "exposed_communication_s": "exposed communication",
    "exposed_copy_s": "exposed copies",
    "idle_s": "idle",
}
"""The states of a device, in words."""

_PART_KINDS = {
    "compute_s": "tensor",
    "exposed_communication_s": "collective",
    "exposed_copy_s": "transfer",
    "idle_s": "bubble",
}

TIMELINE_FILE, SPANS_FILE = "timeline.svg", "timeline.trace.json"

_KINDS = {COMMUNICATION: "collective", COPIES: "transfer", FILLS: "transfer"}
_LEGEND = {"tensor": "compute", "collective": "communication", "transfer": "copies and fills"}

_MAX_BARS = 1500
"""Bars of a timeline: of more events, neighbours of one kind on one stream are drawn as one."""

_NUMBERED = re.compile(r"(.*?)(\d{1,18})")
"""The name of a step: what all have, and the number."""

_MAX_STEPS = 40
_MAX_ROWS = 12
"""Rows of tables of classes, layers, operators, products and collectives on the terminal."""


def events_table(run: RecordedRun) -> pa.Table:
    """Every device event of every rank: the columns that the answer was computed from."""
    parts = [_event_columns(place) for place in run.places]
    return pa.concat_tables(parts) if parts else pa.table({})


def _event_columns(place: Place) -> pa.Table:
    profile = place.profile

    def named(numbers: "np.ndarray[Any, np.dtype[np.int64]]", names: Sequence[str]) -> pa.Array:
        codes = pa.array(np.where(numbers < 0, 0, numbers), mask=numbers < 0, type=pa.int64())
        used = codes.dictionary_encode()
        words = pa.array([names[number] for number in used.dictionary.to_pylist()], type=pa.string())
        return pa.DictionaryArray.from_arrays(used.indices, words).cast(pa.string())

    operator = place.column("operator")
    operators = profile.operators

    def of_operator(column: "np.ndarray[Any, np.dtype[np.int64]]") -> pa.Array:
        numbers = np.where(operator >= 0, column[operator], -1) if len(column) else np.full(len(operator), -1)
        return named(numbers, profile.texts)

    count = len(place.rows)
    return pa.table({
        "rank": np.full(count, place.rank), "device": np.full(count, place.device), "stream": place.column("stream"),
        "start_ns": place.start_ns, "end_ns": place.end_ns, "class": named(place.classes, CLASSES),
        "name": named(place.column("name"), profile.texts), "operator": of_operator(operators.name),
        "shapes": of_operator(operators.shapes), "layer": named(place.column("layer"), profile.texts),
        "annotation": named(place.column("annotation"), profile.texts), "correlation": place.column("correlation"),
    })  # fmt: skip


def view(result: Result, run: RecordedRun) -> View:
    """The answer for people."""
    solution = result.solution
    steps = solution["steps"]
    title = f"{result.problem.name}: where the time goes"
    further = list(_further_tables(solution, len(run.places)))
    if not steps:
        return View(
            title, _verdict_without_times(result), list(_notes(run, solution)), further, lambda: _untimed_page(further)
        )
    tables = [_steps_table(steps), *further]
    return View(
        title=title,
        verdict=verdict(steps),
        notes=list(_notes(run, solution)),
        tables=tables,
        page=lambda: _page(run, tables),
        files=lambda: {TIMELINE_FILE: picture_svg(timeline(run)), SPANS_FILE: json.dumps(spans(run))},
        cards=lambda: [_card(steps, run)],
    )


def _verdict_without_times(result: Result) -> str:
    value = result.objective.value or 0.0
    if result.objective.unit == "s":
        events = counted(result.metrics["events"], "event")
        return f"{time_text(value)} of work on the device, in {events} without start times"
    return f"{value:.4g} FLOP in matrix products, in {counted(result.metrics['events'], 'operator')} without times"


def _untimed_page(tables: Sequence[Table]) -> list[Part]:
    return [part for table in tables for part in (Heading(table.title), table)]


def verdict(steps: Sequence[Mapping[str, Any]]) -> str:
    """The median step, and the shares of its time."""
    own = typical_steps(steps)
    total = sum(step["window_s"] for step in own)
    shares = ", ".join(f"{name} {share_text(sum(step[key] for step in own) / total)}" for key, name in PARTS.items())
    window_s = typical_window_s(steps) or 0.0
    if own[0]["cut"] == "whole":
        return f"{time_text(window_s)} recorded, no step is marked: {shares}"
    count = len({step["name"] for step in own})
    ranks = len({(step["rank"], step["device"]) for step in own})
    over = counted(count, "step") + (f" on {counted(ranks, 'rank')}" if ranks > 1 else "")
    return f"{time_text(window_s)} per step ({'median of ' if len(own) > 1 else ''}{over}): {shares}"


def typical_steps(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that are cut best."""
    cut = next((cut for cut in CUTS if any(step["cut"] == cut for step in steps)), None)
    return [step for step in steps if step["cut"] == cut]


def _steps_table(steps: Sequence[Mapping[str, Any]]) -> Table:
    """Every step of one rank; of several ranks, those that are cut best."""
    several = len({(step["rank"], step["device"]) for step in steps}) > 1
    shown = typical_steps(steps) if several else steps
    scale = time_scale(max(step["window_s"] for step in shown))
    rows = [
        (
            str(step["rank"]),
            step["name"],
            step["cut"],
            *(f"{scale.of(step[key]):,.3f}" for key in ("window_s", *PARTS)),
        )
        for step in shown[:_MAX_STEPS]
    ]
    title = f"Time of each step [{scale.unit}]"
    more = f": {_MAX_STEPS} of {len(shown)}" if len(shown) > _MAX_STEPS else ""
    headers = ("rank", "step", "cut by", "window", "compute", "exposed comm.", "exposed copies", "idle")
    return Table(headers, rows, title=title + more).without(["cut by"] if several else ["rank"])


def _further_tables(solution: Mapping[str, Any], ranks: int) -> Iterator[Table]:
    for key, title in (("classes", "Classes of work"), ("layers", "Layers"), ("operators", "Operators of the host")):
        if solution[key]:
            yield _share_table(title, solution[key], ranks, requested=key == "classes")
    if solution["gemms"]:
        yield _gemm_table(solution["gemms"])
    if solution["collectives"]:
        yield _collective_table(solution["collectives"])


def _share_table(title: str, shares: Sequence[Mapping[str, Any]], ranks: int, requested: bool) -> Table:
    """Time by name over all ranks, with the least and the most of a rank where there are several."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for share in shares:
        by_name.setdefault(share["name"], []).append(share)
    total_s = sum(share["time_s"] for share in shares)
    if not total_s:
        counts = [(share["name"], f"{share['events']:,}") for share in shares[:_MAX_ROWS]]
        return Table(("name", "events"), counts, title=f"{title}: {len(counts)} of {len(shares)}", requested=True)
    scale = time_scale(max(share["time_s"] for share in shares))
    rows = []
    for name, own in sorted(by_name.items(), key=lambda entry: -sum(share["time_s"] for share in entry[1])):
        times_s = [share["time_s"] for share in own] + [0.0] * (ranks - len(own))
        amounts = (sum(times_s) / ranks, min(times_s), max(times_s)) if ranks > 1 else times_s
        events = sum(share["events"] for share in own)
        row = (name or "(not known)", f"{events:,}", *(f"{scale.of(each):,.3f}" for each in amounts))
        rows.append((*row, share_text(sum(times_s) / total_s)))
    headers = ("name", "events", *(("mean", "least", "most") if ranks > 1 else ("time",)), "share")
    more = f": {_MAX_ROWS} of {len(rows)}" if len(rows) > _MAX_ROWS else ""
    return Table(headers, rows[:_MAX_ROWS], title=f"{title} [{scale.unit}]{more}", requested=requested)


def _gemm_table(gemms: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            each["operator"].removeprefix("aten::"),
            "×".join(str(each[key]) for key in (("batch",) if each["batch"] > 1 else ()) + ("m", "n", "k")),
            each["element"].removeprefix("c10::"),
            f"{each['calls']:,}",
            time_text(each["median_s"]) if each["median_s"] else "–",
            "–" if each["flops_per_s"] is None else f"{each['flops_per_s'] / 1e12:,.1f}",
        )
        for each in gemms[:_MAX_ROWS]
    ]
    return Table(("operator", "m×n×k", "type", "calls", "median", "Tflop/s"), rows, title="Matrix products")


def _collective_table(collectives: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            str(each["rank"]),
            each["kind"],
            f"{each['calls']:,}",
            "–" if each["bytes"] is None else f"{each['bytes']:,}",
            "–" if not each["time_s"] else time_text(each["time_s"]),
            *("–" if each[key] is None else time_text(each[key]) for key in ("transfer_s", "waiting_s")),
        )
        for each in collectives
    ]
    return Table(("rank", "collective", "calls", "bytes", "time", "transfer", "waiting"), rows, title="Collectives")


def _notes(run: RecordedRun, solution: Mapping[str, Any]) -> Iterator[str]:
    places = run.places
    matches = matched(places)
    yield from map(Decisive, clock_sentences(clocks(matches), places))
    waiting_s = sum(each["waiting_s"] or 0.0 for each in solution["collectives"])
    whole_s = sum(each["time_s"] for each in solution["collectives"])
    if waiting_s:
        yield Decisive(f"of the time of collectives, {share_text(waiting_s / whole_s)} is waiting for other ranks")
    reasons = {match.reason for match in matches if match.reason}
    if reasons and solution["steps"]:
        listed = "; ".join(sorted(reasons))
        yield Decisive(f"waiting is not told from transfer: {listed}; the time of a collective contains waiting")
    for profile in run.profiles:
        where = f"{profile.path}: " if len(run.profiles) > 1 else ""
        yield from (Decisive(where + remark) for remark in profile.remarks)
    if solution["steps"] and all(step["cut"] == "whole" for step in solution["steps"]):
        yield "no step is marked: with PyTorch, call the profiler's step() after each"
    yield from map(Decisive, sorted(_unmarked(typical_steps(solution["steps"]))))
    if not run.profiles[0].format.startswith("PyTorch"):
        return
    if not solution["gemms"]:
        yield "the sizes of products are not known: profile with record_shapes=True"
    if not solution["layers"]:
        yield "layers are not known: profile with with_stack=True or with_modules=True"


def _unmarked(steps: Sequence[Mapping[str, Any]]) -> set[str]:
    """What is said of steps whose numbers are between those of others, and that have no mark."""
    numbers: dict[tuple[int, int, str], set[int]] = {}
    for step in steps:
        if found := _NUMBERED.fullmatch(step["name"]):
            numbers.setdefault((step["rank"], step["device"], found[1]), set()).add(int(found[2]))
    sentences = set()
    for (rank, _, name), marked in numbers.items():
        every = sorted(marked)
        apart = min((after - before for before, after in pairwise(every)), default=1)
        missing = (every[-1] - every[0]) // apart + 1 - len(every)
        if missing > 0:
            are = "is" if missing == 1 else "are"
            between = f"between {name}{every[0]} and {name}{every[-1]} of rank {rank}"
            sentences.add(f"{counted(missing, 'step')} {between} {are} not marked, and in the whole profile alone")
    return sentences


def _card(steps: Sequence[Mapping[str, Any]], run: RecordedRun) -> Card:
    own = typical_steps(steps)
    mean = {key: sum(step[key] for step in own) / len(own) for key in PARTS}
    shares = [Share(name, mean[key], _PART_KINDS[key]) for key, name in PARTS.items()]
    window_s = typical_window_s(steps) or 0.0
    figures = [
        (time_text(window_s), "recorded" if own[0]["cut"] == "whole" else "per step"),
        (share_text(mean["compute_s"] / sum(mean.values())), "compute"),
        (f"{len(run.places)}", "ranks" if len(run.places) > 1 else "rank"),
        (f"{sum(len(place.rows) for place in run.places):,}", "device events"),
    ]
    return Card(figures=figures, breakdowns=[Breakdown("Mean step", "s", shares)])


def _page(run: RecordedRun, tables: Sequence[Table]) -> list[Part]:
    about = f"Of {_MAX_BARS:,} events and more, neighbours of one kind on one stream are drawn as one."
    parts: list[Part] = [Heading("Timeline"), Paragraph(about, small=True), timeline(run)]
    for table in tables:
        parts += [Heading(table.title), table]
    return parts


def timeline(run: RecordedRun) -> LaneChart:
    """Every stream of every device over the time of the profile."""
    lanes: list[str] = []
    bars: list[LaneBar] = []
    streams = [(place, int(stream)) for place in run.places for stream in np.unique(place.column("stream"))]
    room = max(20, _MAX_BARS // max(1, len(streams)))
    longest = max(int(place.end_ns.max() - place.start_ns.min()) for place in run.places)
    scale = time_scale(longest / 1e9)
    for place, stream in streams:
        base_ns = int(place.start_ns.min())
        for kind, start_ns, end_ns, text in _bars(place, stream, room, longest):
            start, length = ((each / 1e9) for each in (start_ns - base_ns, end_ns - start_ns))
            bars.append(LaneBar(len(lanes), scale.of(start), scale.of(length), kind, text))
        lanes.append(f"rank {place.rank}, stream {stream}")
    return LaneChart(
        title=f"{counted(len(run.places), 'rank')}, {counted(len(streams), 'stream')}, {time_text(longest / 1e9)}",
        x=f"time [{scale.unit}]",
        lanes=lanes,
        bars=bars,
        legend={kind: (label, PART_COLOURS[kind]) for kind, label in _LEGEND.items()},
    )


def _bars(place: Place, stream: int, room: int, longest_ns: int) -> Iterator[tuple[str, int, int, str]]:
    """(kind, start, end, text) of what one stream shows, with neighbours joined until there are at most ``room``."""
    rows = np.flatnonzero(place.column("stream") == stream)
    names, profile = place.column("name")[rows].tolist(), place.profile
    spans = [
        [_KINDS.get(CLASSES[number], "tensor"), start, end, name, 1]
        for number, start, end, name in zip(
            place.classes[rows].tolist(), place.start_ns[rows].tolist(), place.end_ns[rows].tolist(), names, strict=True
        )
    ]
    gap_ns = longest_ns // 2000
    while len(spans) > room:
        joined = spans[:1]
        for span in spans[1:]:
            last = joined[-1]
            if span[0] == last[0] and span[1] - last[2] <= gap_ns:
                joined[-1] = [last[0], last[1], max(last[2], span[2]), last[3], last[4] + span[4]]
            else:
                joined.append(span)
        if gap_ns > longest_ns:
            spans = joined[:room]
            break
        spans, gap_ns = joined, 2 * gap_ns + 1
    for kind, start, end, name, count in spans:
        what = profile.text(name)[:80] if count == 1 else f"{count:,} events"
        yield kind, start, end, f"{what}: {time_text((end - start) / 1e9)}"


def spans(run: RecordedRun) -> dict[str, Any]:
    """The timeline as a Chrome trace that Perfetto opens."""
    events: list[dict[str, Any]] = []
    for place in run.places:
        events.append({"name": "process_name", "ph": "M", "pid": place.rank, "args": {"name": f"rank {place.rank}"}})
        for stream in np.unique(place.column("stream")).tolist():
            for kind, start_ns, end_ns, text in _bars(place, stream, 20_000, int(np.ptp(place.end_ns)) or 1):
                begin_ns = start_ns - int(place.start_ns.min())
                events.append({
                    "name": text, "cat": _LEGEND[kind], "ph": "X", "pid": place.rank, "tid": stream,
                    "ts": begin_ns / 1e3, "dur": (end_ns - start_ns) / 1e3,
                })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}
