"""The rules of :mod:`dse.serve.disaggregated_events` once more, as objects in lists: slow, and sharing no code."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.serve.scheduler_oracle import Request, StepSeconds


@dataclass(frozen=True)
class Rules:
    """Of an engine, and the limits of its ranks."""

    whole_prompts: bool
    prefill_ranks: int
    decode_ranks: int
    step_tokens: int
    requests: int
    cache_tokens: int
    request_s: float


@dataclass(eq=False)
class Place:
    """A rank, or the links of one: what waits, what is under way, and until when."""

    queue: list[Request] = field(default_factory=list)
    working: list[tuple[Request, int]] = field(default_factory=list)
    until: float = math.inf

    def due(self) -> float:
        """When it acts next."""
        if self.working:
            return self.until
        return min((each.ready for each in self.queue[:1]), default=math.inf)


def served_apart(
    rules: Rules,
    step_s: StepSeconds,
    transfer_s: Callable[[int], float],
    lengths: Sequence[tuple[int, int]],
    clients: int,
    arrivals: Sequence[float],
) -> list[Request]:
    """All requests, with their times; None where memory can never hold one."""
    everything: list[Request] = []
    prefill = [Place() for _ in range(rules.prefill_ranks)]
    links = [Place() for _ in range(rules.prefill_ranks)]
    decode = [Place() for _ in range(rules.decode_ranks)]

    def send(now: float) -> bool:
        prompt, output = lengths[len(everything)]
        request = Request(prompt, output, now, now + rules.request_s)
        everything.append(request)
        if prompt + output > rules.cache_tokens:
            return False
        owed = [sum(each.owed for each in place.queue) for place in prefill]
        prefill[owed.index(min(owed))].queue.append(request)
        return True

    def send_next(now: float) -> None:
        while clients and len(everything) < len(lengths) and not send(now):
            pass

    def compute(place: Place, link: Place, now: float) -> None:
        for request, part in place.working:
            request.computed += part
            if request.owed == 0:
                place.queue.remove(request)
                request.ready = now
                link.queue.append(request)
        place.working, room = [], rules.step_tokens
        for request in place.queue:
            fits = request.owed <= room or not place.working
            if request.ready > now or room <= 0 or (rules.whole_prompts and not fits):
                break
            part = request.owed if rules.whole_prompts else min(request.owed, room)
            place.working.append((request, part))
            room -= part
        if place.working:
            ended = sum(part == request.owed for request, part in place.working)
            parts = [(request.computed, part) for request, part in place.working]
            place.until = now + step_s(parts, [], ended)

    def move(place: Place, now: float) -> None:
        for request, _ in place.working:
            place.queue.remove(request)
            request.ready = now
            loads = [len(each.queue) + len(each.working) for each in decode]
            decode[loads.index(min(loads))].queue.append(request)
        place.working = [(request, 0) for request in place.queue[:1]]
        if place.working:
            place.until = now + transfer_s(place.queue[0].prompt)

    def write(place: Place, now: float) -> None:
        for request, _ in list(place.working):
            request.written += 1
            if request.written == request.output:
                request.last = now
                place.working.remove((request, 0))
                send_next(now)
        while place.queue and len(place.working) < rules.requests:
            request = place.queue[0]
            held = sum(each.prompt + each.output for each, _ in place.working)
            if held + request.prompt + request.output > rules.cache_tokens:
                break
            place.queue.pop(0)
            request.first, request.written = now, 1
            if request.output == 1:
                request.last = now
                send_next(now)
            else:
                place.working.append((request, 0))
        if place.working:
            contexts = [each.prompt + each.written for each, _ in place.working]
            place.until = now + step_s([], contexts, len(contexts))

    for _ in range(min(clients, len(lengths))):
        send_next(0.0)
    while True:
        everywhere = [*prefill, *links, *decode]
        now = min(place.due() for place in everywhere)
        if not clients and len(everything) < len(lengths) and arrivals[len(everything)] <= now:
            send(arrivals[len(everything)])
            continue
        if now == math.inf:
            return everything
        place = next(place for place in everywhere if place.due() == now)
        if place in prefill:
            compute(place, links[prefill.index(place)], now)
        elif place in links:
            move(place, now)
        else:
            write(place, now)
