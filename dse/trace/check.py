"""The independent checker: every figure recomputed from the events, in another way than the answer.

The answer sweeps once over all starts and ends and reads states off; here each state of each window is the measure of a
union of clipped intervals, and exposed time is a difference of two unions: |communication ∪ compute| − |compute|. Sums
are taken event by event. The readers of profiles, and what class a name is of, are the definition, which both share.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from dse.importer.profile.profile import KERNEL, Integers
from dse.results.differences import differences
from dse.results.result import Result
from dse.trace.classes import CLASSES, COMMUNICATION, COPIES, FILLS
from dse.trace.collectives import Key, calls_of
from dse.trace.gemms import Size, size_of
from dse.trace.problem import WHOLE, Place, RecordedRun

Entry = dict[str, Any]

_KINDS = {COMMUNICATION: "communicate", COPIES: "copy", FILLS: "copy"}


def violations(result: Result, run: RecordedRun) -> list[str]:
    """What of a result is not as the events say, one sentence each."""
    solution = {
        "steps": [step for place in run.places for step in _steps(place)],
        "classes": [each for place in run.places if run.timing != "none" for each in _classes(place)],
        "layers": [each for place in run.places for each in _by_text(place, place.column("layer").tolist())],
        "operators": [each for place in run.places for each in _by_text(place, _operators(place))],
        "gemms": _gemms(run.places),
        **_communication(run.places),
    }
    metrics = {
        "format": run.profiles[0].format,
        "ranks": len(run.places),
        "events": sum(len(place.rows) for place in run.places),
        "unlinked_events": sum(place.column("is_launched").tolist().count(0) for place in run.places),
    }
    faults = [
        *differences("solution", result.solution, solution),
        *differences("metrics", result.metrics, metrics),
        *differences("objective.value", result.objective.value, _objective(run, solution)),
    ]
    for number, step in enumerate(result.solution["steps"]):
        parts = ("compute_s", "exposed_communication_s", "exposed_copy_s", "idle_s")
        window_ns, parts_ns = round(1e9 * step["window_s"]), sum(round(1e9 * step[part]) for part in parts)
        if window_ns != parts_ns:
            faults.append(f"solution.steps[{number}]: {' + '.join(parts)} must be window_s")
    return faults


def _objective(run: RecordedRun, solution: dict[str, list[Entry]]) -> float | None:
    if run.timing == "none":
        work = (2 * each["calls"] * each["batch"] * each["m"] * each["n"] * each["k"] for each in solution["gemms"])
        return float(sum(work))
    if run.timing == "durations":
        of_rank: dict[int, list[float]] = defaultdict(list)
        for each in solution["classes"]:
            of_rank[each["rank"]].append(each["time_s"])
        return max(map(sum, of_rank.values()))
    steps = solution["steps"]
    cut = next((cut for cut in ("device", "host", "whole") if any(step["cut"] == cut for step in steps)), None)
    return None if cut is None else float(median(step["window_s"] for step in steps if step["cut"] == cut))


def union_ns(start_ns: Integers, end_ns: Integers) -> int:
    """The measure of a union of intervals: each adds what reaches beyond all before it."""
    order = np.argsort(start_ns, kind="stable")
    starts, ends = start_ns[order], end_ns[order]
    reached = np.maximum.accumulate(ends)
    before = np.concatenate((starts[:1], reached[:-1]))
    return int(np.maximum(0, ends - np.maximum(starts, before)).sum())


def _steps(place: Place) -> Iterator[Entry]:
    if place.profile.timing != "times":
        return
    marks = [
        (mark.name, "device" if mark.on_device else "host", mark.start_ns, mark.end_ns)
        for mark in place.profile.marks
        if mark.device == place.device or not mark.on_device
    ]
    for name, cut, start_ns, end_ns in [*marks, (WHOLE, "whole", min(place.start_ns), max(place.end_ns))]:
        yield {
            "rank": place.rank,
            "device": place.device,
            "name": name,
            "cut": cut,
            "events": int(((place.start_ns >= start_ns) & (place.start_ns < end_ns)).sum()),
            **_states(place, int(start_ns), int(end_ns)),
        }


def _states(place: Place, start_ns: int, end_ns: int) -> Entry:
    inside = (place.start_ns < end_ns) & (place.end_ns > start_ns)
    starts, ends = np.maximum(place.start_ns[inside], start_ns), np.minimum(place.end_ns[inside], end_ns)
    classes = [CLASSES[number] for number in place.classes[inside].tolist()]
    kinds = np.array([_KINDS.get(each, "compute") for each in classes])

    def measure(*names: str) -> int:
        own = np.isin(kinds, names)
        return union_ns(starts[own], ends[own])

    compute, both, busy = (
        measure("compute"),
        measure("compute", "communicate"),
        measure("compute", "communicate", "copy"),
    )
    sums: dict[str, int] = defaultdict(int)
    for name, length in zip(classes, (ends - starts).tolist(), strict=True):
        sums[name] += length
    return {
        "window_s": (end_ns - start_ns) / 1e9,
        "compute_s": compute / 1e9,
        "exposed_communication_s": (both - compute) / 1e9,
        "exposed_copy_s": (busy - both) / 1e9,
        "idle_s": (end_ns - start_ns - busy) / 1e9,
        "communication_s": measure("communicate") / 1e9,
        "copy_s": measure("copy") / 1e9,
        "classes": {name: sums[name] / 1e9 for name in CLASSES if sums.get(name)},
    }


def _classes(place: Place) -> list[Entry]:
    return _sums(place, [CLASSES[number] for number in place.classes.tolist()])


def _operators(place: Place) -> list[int]:
    names = place.profile.operators.name.tolist()
    return [names[row] if row >= 0 else row for row in place.column("operator").tolist()]


def _by_text(place: Place, numbers: Sequence[int]) -> list[Entry]:
    if all(number < 0 for number in numbers):
        return []
    return _sums(place, [place.profile.texts[number] if number >= 0 else "" for number in numbers])


def _sums(place: Place, names: Sequence[str]) -> list[Entry]:
    times: dict[str, list[int]] = defaultdict(list)
    for name, length in zip(names, (place.end_ns - place.start_ns).tolist(), strict=True):
        times[name].append(length)
    entries = [
        {"rank": place.rank, "name": name, "events": len(own), "time_s": sum(own) / 1e9} for name, own in times.items()
    ]
    return sorted(entries, key=lambda entry: (-entry["time_s"], -entry["events"], entry["name"]))


def _gemms(places: Sequence[Place]) -> list[Entry]:
    calls: dict[Size, dict[tuple[int, int], list[tuple[int, bool]]]] = {}
    for number, place in enumerate(places):
        profile, of_row = place.profile, {}
        kernels = np.flatnonzero(place.column("kind") == KERNEL)
        columns = (place.column("operator"), place.end_ns - place.start_ns, place.classes)
        for row, length, kind in zip(*(column[kernels].tolist() for column in columns), strict=True):
            if row < 0:
                continue
            if row not in of_row:
                call = (profile.operators.name, profile.operators.shapes, profile.operators.types)
                of_row[row] = size_of(*(profile.text(int(column[row])) for column in call))
            size = of_row[row]
            if size is not None:
                calls.setdefault(size, {}).setdefault((number, row), []).append((length, CLASSES[kind] == "gemm"))
    entries = []
    for size, own in calls.items():
        times = [sum(length for length, _ in kernels) for kernels in own.values()]
        gemm_ns = sum(length for kernels in own.values() for length, is_gemm in kernels if is_gemm)
        flops = len(own) * 2 * size.batch * size.m * size.n * size.k
        entry = {
            "operator": size.operator,
            "batch": size.batch,
            "m": size.m,
            "n": size.n,
            "k": size.k,
            "element": size.element,
            "calls": len(own),
            "kernels": sum(map(len, own.values())),
            "time_s": sum(times) / 1e9,
            "median_s": median(times) / 1e9,
            "flops": flops,
            "flops_per_s": flops / (gemm_ns / 1e9) if gemm_ns else None,
        }
        entries.append((-sum(times), str(size), entry))
    return [entry for _, _, entry in sorted(entries, key=lambda each: each[:2])]


def _communication(places: Sequence[Place]) -> dict[str, list[Entry]]:
    """Collectives and clocks, collective by collective."""
    by_key: dict[Key, dict[int, list[tuple[int, int]]]] = {}
    stated: dict[tuple[Key, int], tuple[int | None, int]] = {}
    for number, place in enumerate(places):
        for key, calls in calls_of(place).items():
            spans = list(zip(calls.start_ns.tolist(), calls.end_ns.tolist(), strict=True))
            by_key.setdefault(key, {})[number] = spans
            stated[key, number] = calls.bytes, calls.group_size
    collectives, later = [], defaultdict(list)
    apart = set()
    for key, members in sorted(by_key.items(), key=lambda entry: str(entry[0])):
        size = max(stated[key, number][1] for number in members) or places[0].profile.ranks or max(2, len(places))
        has_times = places[0].profile.timing == "times"
        is_known = has_times and len(members) >= size and len({*map(len, members.values())}) == 1
        turns = list(zip(*members.values(), strict=True)) if is_known else []
        transfer = sum(min(end - start for start, end in turn) for turn in turns)
        for number, spans in members.items():
            time = sum(end - start for start, end in spans)
            collectives.append({
                "rank": places[number].rank, "kind": key.kind, "group": key.group, "calls": len(spans),
                "bytes": stated[key, number][0], "time_s": time / 1e9,
                "transfer_s": transfer / 1e9 if is_known else None,
                "waiting_s": (time - transfer) / 1e9 if is_known else None,
            })  # fmt: skip
        for turn in turns:
            (first_start, first_end), *others = turn
            for number, (start, end) in zip([*members][1:], others, strict=True):
                later[number].append((first_end, end - first_end))
                if start > first_end or first_start > end:
                    apart.add(number)
    clocks = []
    for number in sorted(apart):
        differences_ns = [difference for _, difference in sorted(later[number])]
        quarter = max(1, len(differences_ns) // 4)
        first, last = (int(median(part)) for part in (differences_ns[:quarter], differences_ns[-quarter:]))
        clocks.append({"rank": places[number].rank, "first_s": first / 1e9, "last_s": last / 1e9})
    return {"collectives": collectives, "clocks": clocks}
