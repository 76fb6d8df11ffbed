"""Every pair of prefill and decode workers, priced or ruled out.

Sought is the same as in :mod:`dse.serve.search`. Workers of each kind are priced by themselves; a pair is priced where
a bound does not rule it out. A pair answers at most

    min(R, Q, C / (alone + (o − 1) · t)) requests a second

with R the most that its decode workers write at any number of requests up to their limit whose TPOT keeps the limit,
Q the most prompts that its prefill workers compute while the mean wait leaves TTFT within its limit, and t the least
TPOT of the decode workers; at a given rate, R and Q must bear it. R is exact, as a step's seconds are linear between
points, so that the most is at a point, at the limit or where TPOT meets its limit. Decode workers come in the order of
what the best prefill workers of any size could make of them, each with those that may reach the best so far.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.run.progress import StopSignal, never_stop
from dse.serve.disaggregated import Pairs, closed_loop, open_loop
from dse.serve.disaggregated_workers import DecodeWorkers, Integers, Kinds, PrefillWorkers, kinds
from dse.serve.links import links
from dse.serve.problem import Goals, ServeProblem
from dse.serve.serving_plan import SplitPlan
from dse.serve.simulation import REQUESTS_PER_CLIENT
from hardware.kernel_times.form import Floats

TIE = 1e-9
_AT_ONCE = 64
_PRICED_AT_ONCE = 4096


@dataclass(frozen=True)
class PricedPairs:
    """Pairs of workers, [N] each.

    Attributes:
        kinds: what they are rows of.
        prefill, decode: rows.
        ttft_s, tpot_s, latency_s: means of a request; infinite where no queue comes to rest.
        tokens_per_s: output of the whole machine.
        rate_per_s: the most requests that it answers.
        devices: how many it uses.
    """

    kinds: Kinds
    prefill: Integers
    decode: Integers
    ttft_s: Floats
    tpot_s: Floats
    latency_s: Floats
    tokens_per_s: Floats
    rate_per_s: Floats
    devices: Integers

    mode = "disaggregated"

    def __len__(self) -> int:
        """How many."""
        return len(self.prefill)

    def plan(self, row: int) -> SplitPlan:
        """The configuration in one row."""
        return self.kinds.plan(int(self.prefill[row]), int(self.decode[row]))

    def ties(self) -> tuple[Floats, ...]:
        """What decides among equal ones, the least first: of decode workers, then of prefill workers."""
        prompts, tokens = self.kinds.prefill, self.kinds.decode
        shapes = [[getattr(each.shape, key) for each in tokens.cells] for key in ("tensor", "pipeline", "expert")]
        others = [[getattr(each.shape, key) for each in prompts.cells] for key in ("tensor", "pipeline", "expert")]
        chunk, batch = prompts.chunk[self.prefill], tokens.batch[self.decode]
        return (
            *(np.array(each, float)[tokens.cell[self.decode]] for each in shapes), -chunk.astype(float),
            batch.astype(float), *(np.array(each, float)[prompts.cell[self.prefill]] for each in others),
        )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What pairs are sought for.

    Attributes:
        problem: that they are for.
        goals: limits on means that pairs are ruled out by.
        of_machine: whether the output of the whole machine is sought, and not that of each accelerator.
    """

    problem: ServeProblem
    goals: Goals
    of_machine: bool = False

    def objective(self, rate: Floats, devices: Integers) -> Floats:
        """What is maximised, of pairs that answer at so many requests a second."""
        if self.problem.fewest:
            return np.where(rate > 0, -devices.astype(float), -np.inf)
        tokens = rate * self.problem.load.output.mean
        return np.where(rate > 0, tokens if self.of_machine else tokens / devices, -np.inf)


class _Bounds:
    """What workers that may be paired reach at most.

    Attributes:
        writes: [D] requests a second that decode workers answer, alone.
        computes: [P] requests a second whose prompts prefill workers compute, alone.
    """

    def __init__(self, asked: Asked, own: Kinds) -> None:
        self.asked, self.own = asked, own
        problem = asked.problem
        load, goals = problem.load, asked.goals
        self.most = problem.devices
        self.after = max(load.output.mean - 1.0, 1e-9)
        self.writes = most_written(own.decode, self._clients(own.decode), goals.tpot_s, self.after)
        self.least_s = own.decode.token_s.min(axis=1)[own.decode.cell]
        self.computes = _most_computed(own.prefill, load.concurrency, goals.ttft_s)
        if problem.is_open:
            rate = load.rate_per_s
            self.writes = np.where(self.writes > rate, rate, 0.0)
            self.computes = np.where(self.computes > rate, rate, 0.0)

    def _clients(self, decode: DecodeWorkers) -> Floats:
        if self.asked.problem.is_open:
            return decode.requests
        return np.minimum(decode.requests, self.asked.problem.load.concurrency / decode.ranks)

    def _answered(self, rate: Floats, alone_s: Floats, token_s: Floats) -> Floats:
        """At most so many requests a second, as each of the clients waits for its own."""
        if self.asked.problem.is_open:
            return rate
        return np.minimum(rate, self.asked.problem.load.concurrency / (alone_s + self.after * token_s))

    def of_decode(self) -> Floats:
        """[D]: the objective with the best prefill workers of any size."""
        own, asked = self.own, self.asked
        known = self.computes > 0
        if not known.any() or not len(self.writes):
            return np.full(len(self.writes), -np.inf)
        computes = np.zeros(self.most + 1)
        np.maximum.at(computes, own.prefill.devices[known], self.computes[known])
        computes = np.maximum.accumulate(computes)
        writes = self._answered(self.writes, own.prefill.alone_s[known].min(), self.least_s)
        devices, free = own.decode.devices, self.most - own.decode.devices
        rate = np.where(free > 0, np.minimum(writes, computes[np.maximum(free, 0)]), 0.0)
        if asked.problem.fewest:
            return asked.objective(rate, devices + int(own.prefill.devices[known].min()))
        if asked.of_machine:
            return asked.objective(rate, devices)
        enough = np.searchsorted(computes, writes)
        whole = np.where(enough <= free, writes / (devices + np.minimum(enough, self.most)), 0.0)
        sizes, of_size = np.unique(devices, return_inverse=True)
        together = sizes[:, None] + np.arange(self.most + 1)
        part = np.maximum.accumulate(np.where(together <= self.most, computes / together, 0.0), axis=1)
        best = np.maximum(whole, part[of_size, np.minimum(enough, self.most + 1) - 1])
        return np.where(rate > 0, best * asked.problem.load.output.mean, -np.inf)

    def of_pairs(self, rows: Integers) -> Floats:
        """[N, P]: the objective of some decode workers with each of the prefill workers."""
        own = self.own
        devices = own.decode.devices[rows, None] + own.prefill.devices
        rate = np.minimum(self.writes[rows, None], self.computes)
        rate = self._answered(rate, own.prefill.alone_s, self.least_s[rows, None])
        return self.asked.objective(np.where(devices <= self.most, rate, 0.0), devices)


def most_written(decode: DecodeWorkers, most: Floats, limit: float | None, writes: float) -> Floats:
    """[D] requests a second that decode ranks answer with any number of requests up to ``most`` that keeps the limit.

    A rank with b requests answers b / TPOT(b); between points TPOT is linear, and the quotient rises or falls.
    """
    limit = np.inf if limit is None else limit * (1 + TIE)
    points, seconds = decode.points, decode.token_s
    kept = seconds <= limit
    at, meets = np.where(kept, points / seconds, 0.0), np.zeros(seconds.shape)
    crossed = kept[:, :-1] != kept[:, 1:]
    if crossed.any():  # requests at which a piece meets the limit, beyond its left point
        share = (limit - seconds[:, :-1]) / np.where(crossed, np.diff(seconds, axis=1), 1.0)
        meets[:, :-1] = np.where(crossed, points[:-1] + share * np.diff(points), 0.0)
    highest = np.maximum.accumulate(np.maximum(at, np.roll(meets, 1, axis=1) / limit), axis=1)
    place = np.searchsorted(points, most, side="right") - 1
    here, left = decode.pace(decode.cell, np.maximum(most, 1.0)), (decode.cell, np.maximum(place, 0))
    last = np.where(here <= limit, most / here, 0.0)
    last = np.maximum(last, np.where(meets[left] <= most, meets[left], 0.0) / limit)
    return decode.ranks * np.maximum(np.where(place >= 0, highest[left], 0.0), last) / writes


def _most_computed(prefill: PrefillWorkers, clients: int, limit: float | None) -> Floats:
    """[P] requests a second whose prompts are computed while those that wait keep the limit on TTFT."""
    rate = prefill.ranks / prefill.prompt_s
    if limit is None:
        return rate
    wait = limit * (1 + TIE) - prefill.alone_s
    burst = max(clients - 1.0, 0.0) / 2.0 / rate / REQUESTS_PER_CLIENT
    busy = 2.0 * wait / (prefill.prompt_s + 2.0 * np.maximum(wait, 0.0))
    return np.where((wait >= 0) & (burst <= wait), rate * busy, 0.0)


def price_pairs(problem: ServeProblem, own: Kinds, prefill: Integers, decode: Integers) -> PricedPairs:
    """Pairs by their rows."""
    prompts, tokens, load = own.prefill, own.decode, problem.load
    devices = prompts.devices[prefill] + tokens.devices[decode]
    moved = links(problem).moved_s(np.maximum(prompts.sent_bytes[prefill], tokens.received_bytes[decode]), devices)
    pairs = Pairs(
        prompts.prompt_s[prefill], moved, prompts.alone_s[prefill] + moved, prompts.ranks[prefill],
        tokens.ranks[decode], tokens.requests[decode],
    )  # fmt: skip
    cell = tokens.cell[decode]

    def token_s(running: Floats) -> Floats:
        return tokens.pace(cell, running)

    if problem.is_open:
        state, rate = open_loop(pairs, load, load.rate_per_s, token_s)
    else:
        state = closed_loop(pairs, load, np.full(len(decode), float(load.concurrency)), token_s)
        rate = state.tokens_per_s / load.output.mean
    answered = np.where(np.isfinite(state.latency_s), state.tokens_per_s, 0.0)
    return PricedPairs(
        own, prefill, decode, state.ttft_s, state.tpot_s, state.latency_s, answered, rate, devices
    )  # fmt: skip


def search_pairs(
    problem: ServeProblem, stop: StopSignal = never_stop, *, of_machine: bool = False
) -> tuple[list[PricedPairs], int, str | None]:
    """(pairs that were priced, each once; how many there are; why the search ended early)."""
    known = list(kinds(problem))
    vocabulary = sum(_count(problem, each) for each in known)
    parts: list[PricedPairs] = []
    seen = [np.zeros(0, np.int64) for _ in known]
    for goals in _relaxed(problem.goals):
        asked = Asked(problem, goals, of_machine)
        for part in _best_first(asked, known, seen):
            parts.append(part)
            if (reason := stop()) is not None:
                return parts, vocabulary, reason
    return parts, vocabulary, None


def _count(problem: ServeProblem, own: Kinds) -> int:
    """Pairs within the machine, those that memory does not hold included."""
    sizes = problem.devices + 1
    prompts, tokens = (np.bincount(each.legal, minlength=sizes) for each in (own.prefill, own.decode))
    within = np.cumsum(prompts)
    return int(sum(int(count) * int(within[problem.devices - size]) for size, count in enumerate(tokens)))


def _relaxed(goals: Goals) -> Iterator[Goals]:
    """The limits on means, and without each of them: what each costs is said beside the answer."""
    yield goals
    both = goals.ttft_s is not None and goals.tpot_s is not None
    if goals.statistic == "mean" and both:
        yield from (replace(goals, ttft_s=None), replace(goals, tpot_s=None))
    elif goals != Goals():
        yield Goals()


def _best_first(asked: Asked, known: list[Kinds], seen: list[Integers]) -> Iterator[PricedPairs]:
    """Pairs that may be as good as the best so far, priced; ``seen`` has the numbers of those that were."""
    bounds = [_Bounds(asked, own) for own in known]
    highest = np.concatenate([np.zeros(0), *(each.of_decode() for each in bounds)])
    kind = np.concatenate([np.zeros(0, np.int64), *(np.full(len(e.writes), k) for k, e in enumerate(bounds))])
    row = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(each.writes)) for each in bounds)])
    order = np.argsort(-highest, kind="stable")
    best = -np.inf

    def least() -> float:
        return float(best - abs(best) * TIE) if np.isfinite(best) else -np.finfo(float).max

    for begin in range(0, len(order), _AT_ONCE):
        block = order[begin : begin + _AT_ONCE]
        if highest[block[0]] < least():
            return
        for number in np.unique(kind[block]):
            own, rows = bounds[number], row[block[kind[block] == number]]
            of_pairs = own.of_pairs(rows)
            places = np.flatnonzero(of_pairs.ravel() >= least())
            places = places[np.argsort(-of_pairs.ravel()[places], kind="stable")]
            width = of_pairs.shape[1]
            for first in range(0, len(places), _PRICED_AT_ONCE):
                chosen = places[first : first + _PRICED_AT_ONCE]
                chosen = chosen[of_pairs.ravel()[chosen] >= least()]
                if not len(chosen):
                    break
                prefill, decode = chosen % width, rows[chosen // width]
                part = price_pairs(asked.problem, own.own, prefill, decode)
                rate = np.where(_keeps(part, asked.goals), part.tokens_per_s / asked.problem.load.output.mean, 0.0)
                best = max(best, float(asked.objective(rate, part.devices).max()))
                new = ~np.isin(prefill * len(own.writes) + decode, seen[number])
                seen[number] = np.union1d(seen[number], prefill * len(own.writes) + decode)
                if new.any():
                    yield _rows(part, new)


def _keeps(part: PricedPairs, goals: Goals) -> NDArray[np.bool_]:
    kept = np.isfinite(part.latency_s)
    for limit, values in ((goals.ttft_s, part.ttft_s), (goals.tpot_s, part.tpot_s)):
        kept &= True if limit is None else values <= limit * (1 + TIE)
    return kept


def _rows(part: PricedPairs, rows: NDArray[np.bool_]) -> PricedPairs:
    names = ("prefill", "decode", "ttft_s", "tpot_s", "latency_s", "tokens_per_s", "rate_per_s", "devices")
    return replace(part, **{name: getattr(part, name)[rows] for name in names})
