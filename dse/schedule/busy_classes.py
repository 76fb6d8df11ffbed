"""Which class of operators a layer's time goes to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dse.report.view import Share

SEVERAL, WAITING = "several", "waiting"

LABELS = {
    "tensor": "tensor operators",
    "vector": "vector operators",
    "fused": "fused operators",
    "collective": "collectives inside layers",
    SEVERAL: "operators of several classes at once",
    WAITING: "no operator",
}
"""What each part of the time is called, by its key, in the order in which they are shown."""


_SAME = 1e-9
"""Share of the makespan below which two moments are one."""


class Interval(NamedTuple):
    """When an operator of a class runs."""

    kind: str
    start_s: float
    finish_s: float


def busy_s(operators: Sequence[Interval]) -> Mapping[str, float]:
    """Seconds from zero to the last finish by the class that runs, over the keys of :data:`LABELS`.

    They add up to the makespan: a moment at which two classes run counts as :data:`SEVERAL`, one at which nothing runs
    as :data:`WAITING`.
    """
    seconds = dict.fromkeys(LABELS, 0.0)
    events = sorted(
        [(each.start_s, 1, each.kind) for each in operators if each.finish_s > each.start_s]
        + [(each.finish_s, -1, each.kind) for each in operators if each.finish_s > each.start_s]
    )
    running: dict[str, int] = {}
    # Of two operators that follow each other, one may end a rounding error behind the start of the other.
    same_s = _SAME * max((each.finish_s for each in operators), default=0.0)
    last_s = 0.0
    for moment_s, change, kind in events:
        active = [name for name, count in running.items() if count]
        state = WAITING if not active else active[0] if len(active) == 1 else SEVERAL
        if moment_s - last_s > same_s:
            seconds[state] += moment_s - last_s
            last_s = moment_s
        running[kind] = running.get(kind, 0) + change
    return seconds


def shares(seconds: Mapping[str, float]) -> list[Share]:
    """The parts of a breakdown."""
    return [Share(LABELS[kind], amount, kind) for kind, amount in seconds.items()]
