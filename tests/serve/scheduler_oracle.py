"""The rules of :mod:`dse.serve.events` once more, as objects in lists: slow, and sharing no code."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class Request:
    """One of them, on its way."""

    prompt: int
    output: int
    sent: float
    ready: float
    computed: int = 0
    again: int = 0  # tokens that it had written when it lost its memory
    written: int = 0
    first: float | None = None
    last: float | None = None

    @property
    def owed(self) -> int:
        """Tokens to compute before the next one can be written."""
        return self.prompt + self.again - self.computed

    def reserved(self, reserves_output: bool) -> int:
        """Tokens of memory."""
        if reserves_output:
            return self.prompt + self.output
        return self.prompt + 1 + self.written


@dataclass(frozen=True)
class Rules:
    """Of an engine, and the limits of a rank."""

    composition: str
    step_tokens: int
    requests: int
    cache_tokens: int
    reserves_output: bool
    request_s: float
    drafts: int = 0
    gains: tuple[int, ...] = (1,)
    receive_steps: int = 1
    wait_steps: int = 0
    wait_tokens: float = 0.0
    token_s: float = 0.0
    sharers: int = 1


StepSeconds = Callable[[Sequence[tuple[int, int]], Sequence[int], int], float]
"""Of parts of prompts (computed before, new), contexts of decoding requests, and how many tokens come out."""


def served(
    rules: Rules, step_s: StepSeconds, lengths: Sequence[tuple[int, int]], clients: int, arrivals: Sequence[float]
) -> list[Request]:
    """All requests, with their times; None where memory can never hold one."""
    rest = deque(lengths)
    everything: list[Request] = []
    waiting: deque[Request] = deque()

    taken_until = 0.0

    def send(now: float) -> None:
        nonlocal taken_until
        prompt, output = rest.popleft()
        begin = max(now, taken_until)
        request = Request(prompt, output, now, begin + prompt * rules.token_s + rules.request_s)
        taken_until = begin + rules.sharers * prompt * rules.token_s
        everything.append(request)
        waiting.append(request)

    for place in range(min(clients, len(lengths)) if clients else len(lengths)):
        send(0.0 if clients else arrivals[place])
    batch: list[Request] = []
    preempted: list[Request] = []
    gains = itertools.cycle(rules.gains)
    now = looked = 0.0
    without_prompts = waits = 0
    while batch or waiting or preempted:
        while len(batch) < rules.requests:
            if not preempted and not (waiting and waiting[0].ready <= looked):
                break
            candidate = preempted[-1] if preempted else waiting[0]
            if candidate.prompt + candidate.output > rules.cache_tokens:
                waiting.popleft()
                if clients and rest:
                    send(now)
                continue
            held = sum(each.reserved(rules.reserves_output) for each in batch)
            if held + candidate.reserved(rules.reserves_output) > rules.cache_tokens:
                break
            batch.append(candidate)
            if preempted:
                preempted.pop()
            else:
                waiting.popleft()
        if not batch:
            if waiting:
                now = max(now, waiting[0].ready)
            looked = now
            continue
        prompts = [each for each in batch if each.owed > 0]
        decoding = [each for each in batch if each.owed <= 0]
        if rules.composition == "prefill first" and prompts:
            decoding = []
        ready = sum(each.owed for each in prompts) + len(decoding) * (1 + rules.drafts)
        if prompts and decoding and waits < rules.wait_steps and ready < rules.wait_tokens:
            prompts, waits = [], waits + 1
        room = rules.step_tokens - len(decoding) * (1 + rules.drafts)
        parts: list[tuple[Request, int]] = []
        for each in prompts:
            if room <= 0:
                break
            whole = rules.composition == "whole prompts"
            if whole and each.owed > room and (parts or decoding):
                break
            part = each.owed if whole else min(each.owed, room)
            parts.append((each, part))
            room -= part
        out = len(decoding) * (1 + rules.drafts) + sum(part == each.owed for each, part in parts)
        contexts = [each.prompt + each.written for each in decoding]
        now += step_s([(each.computed, part) for each, part in parts], contexts, out)
        without_prompts += 1
        if parts:
            waits = 0
        if parts or without_prompts == rules.receive_steps:
            looked, without_prompts = now, 0
        for each, part in parts:
            each.computed += part
        writers = {id(each) for each in decoding} | {id(each) for each, _ in parts if each.owed <= 0}
        for each in list(batch):
            if id(each) in writers:
                gained = next(gains) if each in decoding else 1
                each.written = min(each.written + gained, each.output)
                each.first = now if each.first is None else each.first
                if each.written == each.output:
                    each.last = now
                    batch.remove(each)
                    if clients and rest:
                        send(now)
        while not rules.reserves_output and len(batch) > 1:
            if sum(each.reserved(False) for each in batch) <= rules.cache_tokens:
                break
            victim = batch.pop()
            victim.again, victim.computed = victim.written, 0
            preempted.append(victim)
    return everything
