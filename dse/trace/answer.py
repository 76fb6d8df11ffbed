"""The answer of ``dse trace``: every step, class, layer, operator, product and collective of a recorded run."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from dse.importer.profile.profile import Integers, Timing
from dse.trace.breakdown import Sweep
from dse.trace.classes import CLASSES
from dse.trace.collectives import Matched, clocks, matched
from dse.trace.gemms import gemms_of
from dse.trace.problem import Place, RecordedRun, Window, windows_of

CUTS = ("device", "host", "whole")
"""What may state where a step begins and ends, the best first."""


def solution_of(run: RecordedRun) -> dict[str, Any]:
    """``solution`` of the result."""
    places = run.places
    matches = matched(places)
    return {
        "steps": [step for place in places for step in _steps(place)],
        "classes": [
            share for place in places if run.timing != "none" for share in _shares(place, place.classes, CLASSES)
        ],
        "layers": [share for place in places for share in _named(place, place.column("layer"))],
        "operators": [share for place in places for share in _named(place, _operator_names(place))],
        "gemms": [each.document() for each in gemms_of(places)],
        "collectives": [each for match in matches for each in _collectives(match, places)],
        "clocks": [
            {"rank": places[each.place].rank, "first_s": each.first_ns / 1e9, "last_s": each.last_ns / 1e9}
            for each in clocks(matches)
        ],
    }


OBJECTIVES: Mapping[Timing, tuple[str, str]] = {
    "times": ("window_s", "s"), "durations": ("work_s", "s"), "none": ("product_flops", "FLOP")
}  # fmt: skip
"""Name and unit of the value, by what is known of when events ran: the median step, the time of all device events of
the slowest rank, or the work of all products.
"""


def value_of(timing: Timing, solution: Mapping[str, Any]) -> float | None:
    """The value of the objective."""
    if timing == "times":
        return typical_window_s(solution["steps"])
    if timing == "none":
        return float(sum(gemm["flops"] for gemm in solution["gemms"]))
    ranks = {share["rank"] for share in solution["classes"]}
    work = (sum(share["time_s"] for share in solution["classes"] if share["rank"] == rank) for rank in ranks)
    return float(max(work))


def typical_window_s(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """The median of the windows of the steps that are cut best; the whole profile where no step is marked."""
    for cut in CUTS:
        windows = [step["window_s"] for step in steps if step["cut"] == cut]
        if windows:
            return float(median(windows))
    return None


def metrics_of(run: RecordedRun) -> dict[str, Any]:
    """``metrics`` of the result."""
    return {
        "format": run.profiles[0].format,
        "ranks": len(run.places),
        "events": sum(len(profile.events) for profile in run.profiles),
        "unlinked_events": sum(int((profile.events.is_launched == 0).sum()) for profile in run.profiles),
    }


def _steps(place: Place) -> Iterator[dict[str, Any]]:
    sweep = Sweep(place.start_ns, place.end_ns, place.classes)
    for window in windows_of(place):
        clipped_ns = np.minimum(place.end_ns, window.end_ns) - np.maximum(place.start_ns, window.start_ns)
        totals = np.bincount(place.classes, weights=np.maximum(clipped_ns, 0), minlength=len(CLASSES))
        yield {
            "rank": place.rank,
            "device": place.device,
            "name": window.name,
            "cut": window.cut,
            "events": _beginning_in(place, window),
            **sweep.between(window.start_ns, window.end_ns).seconds(),
            "classes": {name: int(total) / 1e9 for name, total in zip(CLASSES, totals, strict=True) if total},
        }


def _beginning_in(place: Place, window: Window) -> int:
    first, behind = np.searchsorted(place.start_ns, [window.start_ns, window.end_ns])
    return int(behind - first)


def _operator_names(place: Place) -> Integers:
    operator, names = place.column("operator"), place.profile.operators.name
    if not len(names):
        return operator
    return np.where(operator >= 0, names[operator], operator)


def _named(place: Place, numbers: Integers) -> list[dict[str, Any]]:
    """Shares by the number of a name; none where no event has one."""
    if not (numbers >= 0).any():
        return []
    return _shares(place, numbers + 1, ("", *place.profile.texts))


def _shares(place: Place, keys: Integers, names: Sequence[str]) -> list[dict[str, Any]]:
    """Events and time by name, those with the most time first."""
    lengths = place.end_ns - place.start_ns
    used, rows = np.unique(keys, return_inverse=True)
    counts = np.bincount(rows, minlength=len(used))
    times = np.zeros(len(used), np.int64)
    np.add.at(times, rows, lengths)
    shares = [
        {"rank": place.rank, "name": names[key], "events": int(count), "time_s": int(time) / 1e9}
        for key, count, time in zip(used.tolist(), counts, times, strict=True)
    ]
    return sorted(shares, key=lambda share: (-share["time_s"], -share["events"], share["name"]))


def _collectives(match: Matched, places: Sequence[Place]) -> Iterator[dict[str, Any]]:
    is_known = not match.reason
    transfer_ns = int(match.transfer_ns.sum())
    for number, calls in match.calls.items():
        yield {
            "rank": places[number].rank,
            "kind": match.key.kind,
            "group": match.key.group,
            "calls": len(calls.start_ns),
            "bytes": calls.bytes,
            "time_s": calls.time_ns / 1e9,
            "transfer_s": transfer_ns / 1e9 if is_known else None,
            "waiting_s": (calls.time_ns - transfer_ns) / 1e9 if is_known else None,
        }
