"""A pipeline in time: what every stage, transfer and all-reduce does when, for people.

Stages run one forward, one backward (Narayanan et al., PipeDream, 2019, without weights of several versions): as many
forward passes ahead as there are stages from there on, then a backward pass for each forward pass. A cut sends one
array at a time, in the order in which they are made. All-reduces of gradients begin after the last backward pass.

The definition (:mod:`dse.parallel.pipeline.length`) takes every further microbatch to come out as soon as the slowest
stage allows; stages that wait for each other can take longer.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dse.parallel.pipeline.length import StageTimes
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class Timeline:
    """Spans on lanes.

    Attributes:
        lanes: their names: each stage, its all-reduce, and the cut behind it, which the last one lacks.
        spans: in no order.
        microbatches: how many are shown, of all.
        end_s: when the last span ends.
    """

    lanes: tuple[str, ...]
    spans: tuple[Span, ...]
    microbatches: int

    @property
    def end_s(self) -> float:
        """Of the last span."""
        return max(span.end_s for span in self.spans)


def timeline(stages: Sequence[StageTimes], microbatches: int) -> Timeline:
    """The stages of a plan in time; of long batches the first microbatches, as if there were no others."""
    shown = min(microbatches, max(1, MAX_EVENTS // (4 * len(stages))))
    return _Simulation(stages, shown).finished()


def pipeline_trace(name: str, of: Timeline, microbatches: int) -> TraceEvents:
    """For Perfetto, a thread for each lane."""
    part = "" if of.microbatches == microbatches else f", {of.microbatches} of {microbatches} microbatches"
    return trace(f"{name}: pipeline{part}", of.lanes, of.spans)


class _Simulation:
    """Events in the order of their times; every stage and every cut does one thing at a time."""

    def __init__(self, stages: Sequence[StageTimes], microbatches: int) -> None:
        self._stages, self._count = stages, microbatches
        self._orders = [
            deque(_one_forward_one_backward(len(stages) - number, microbatches)) for number in range(len(stages))
        ]
        self._arrived: list[set[tuple[str, int]]] = [set() for _ in stages]
        self._arrived[0] = {(FORWARD, number) for number in range(microbatches)}
        self._is_busy = [False] * len(stages)
        self._queues: list[deque[tuple[str, int]]] = [deque() for _ in stages]
        self._is_sending = [False] * len(stages)
        self._events: list[tuple[float, int, str, int, str, int]] = []
        self._spans: list[Span] = []

    def finished(self) -> Timeline:
        """Everything, from the first forward pass to the last all-reduce."""
        self._begin(0, 0.0)
        while self._events:
            now_s, _, what, stage, kind, number = heapq.heappop(self._events)
            if what == "computed":
                self._computed(stage, kind, number, now_s)
            else:
                self._sent(stage, kind, number, now_s)
        names = [
            (f"stage {number}", f"all-reduce {number}", f"{number} ↔ {number + 1}")
            for number in range(1, len(self._stages) + 1)
        ]
        lanes = [name for each in names for name in each]
        return Timeline(tuple(lanes[:-1]), tuple(self._spans), self._count)

    def _begin(self, stage: int, now_s: float) -> None:
        """Let a stage do what is next, if it is free and has what that takes."""
        order = self._orders[stage]
        if self._is_busy[stage] or not order or order[0] not in self._arrived[stage]:
            return
        kind, number = order.popleft()
        self._is_busy[stage] = True
        times = self._stages[stage]
        end_s = now_s + (times.forward_s if kind == FORWARD else times.backward_s)
        self._spans.append(Span(3 * stage, f"{kind[0].upper()}{number + 1}", kind, now_s, end_s))
        self._push(end_s, "computed", stage, kind, number)

    def _computed(self, stage: int, kind: str, number: int, now_s: float) -> None:
        self._is_busy[stage] = False
        if kind == FORWARD and stage + 1 == len(self._stages):
            self._arrived[stage].add((BACKWARD, number))
        elif kind == FORWARD:
            self._send(stage, kind, number, now_s)
        elif stage > 0:
            self._send(stage - 1, kind, number, now_s)
        joined_s = self._stages[stage].all_reduce_s
        if not self._orders[stage] and joined_s > 0:
            self._spans.append(Span(3 * stage + 1, "all-reduce", "synchronisation", now_s, now_s + joined_s))
        self._begin(stage, now_s)

    def _send(self, cut: int, kind: str, number: int, now_s: float) -> None:
        self._queues[cut].append((kind, number))
        self._next_sending(cut, now_s)

    def _next_sending(self, cut: int, now_s: float) -> None:
        if self._is_sending[cut] or not self._queues[cut]:
            return
        kind, number = self._queues[cut].popleft()
        self._is_sending[cut] = True
        end_s = now_s + self._stages[cut].send_s
        self._spans.append(Span(3 * cut + 2, f"{kind[0].upper()}{number + 1}", "transfer", now_s, end_s))
        self._push(end_s, "sent", cut, kind, number)

    def _sent(self, cut: int, kind: str, number: int, now_s: float) -> None:
        self._is_sending[cut] = False
        receiver = cut + 1 if kind == FORWARD else cut
        self._arrived[receiver].add((kind, number))
        self._next_sending(cut, now_s)
        self._begin(receiver, now_s)

    def _push(self, at_s: float, what: str, stage: int, kind: str, number: int) -> None:
        heapq.heappush(self._events, (at_s, len(self._spans), what, stage, kind, number))


def _one_forward_one_backward(ahead: int, microbatches: int) -> list[tuple[str, int]]:
    """The passes of a stage in their order, of which ``ahead`` forward ones come first."""
    first = min(ahead, microbatches)
    order = [(FORWARD, number) for number in range(first)]
    for number in range(microbatches):
        order.append((BACKWARD, number))
        if first + number < microbatches:
            order.append((FORWARD, first + number))
    return order
