"""Requests one by one: a file of lengths and, for an open loop, arrivals; one JSON object a line.

{"prompt_tokens": 1200, "output_tokens": 340, "arrival_s": 0.25}
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.serve.load import Integers, Lengths, Load
from hardware.documents import text_of
from hardware.inputs import Fault, InputError, fail, nearest, shown

LENGTHS = ("prompt_tokens", "output_tokens")
ARRIVAL = "arrival_s"

_LARGEST = 2**24
_MEANT = {
    "timestamp": ARRIVAL, "arrival": ARRIVAL, "arrival_time": ARRIVAL, "arrived_at": ARRIVAL, "time": ARRIVAL,
    "arrival_ms": ARRIVAL, "input_length": "prompt_tokens", "prompt": "prompt_tokens", "isl": "prompt_tokens",
    "output_length": "output_tokens", "output": "output_tokens", "osl": "output_tokens",
}  # fmt: skip
"""What other files call these, some of them without a unit."""


@dataclass(frozen=True)
class GivenRequests(Load):
    """Requests of a file.

    Attributes:
        prompts, outputs: tokens of each.
        arrivals_s: from the first one, rising; empty for a closed loop.
    """

    prompts: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    arrivals_s: tuple[float, ...] = ()

    @property
    def given(self) -> int:
        """How many."""
        return len(self.prompts)

    @property
    def longest(self) -> int:
        """Tokens of the longest request: the longest prompt need not have the longest output."""
        return max(map(sum, zip(self.prompts, self.outputs, strict=True)))

    def drawn(self, requests: int, seed: int) -> tuple[Integers, Integers, NDArray[np.float64]]:
        """The first ``requests`` of them, as they are."""
        del seed
        arrivals = self.arrivals_s or (0.0,) * self.given
        return (
            np.array(self.prompts[:requests], np.int64), np.array(self.outputs[:requests], np.int64),
            np.array(arrivals[:requests], np.float64),
        )  # fmt: skip

    def part(self, batches: int, clients: int) -> "GivenRequests":
        """What one of so many batches gets, in turn; of a closed loop with so many clients."""
        every = slice(None, None, batches)
        return GivenRequests(
            self.prompt, self.output, clients, self.rate_per_s / batches, self.prefix, self.hit_rate,
            self.prompts[every], self.outputs[every], self.arrivals_s[every],
        )  # fmt: skip


def given_requests(path: str, concurrency: int, prefix: int, hit_rate: float) -> GivenRequests:
    """The requests of a file.

    Raises:
        InputError: a line that is not a request, one fault each; arrivals in some lines alone, or not rising; a closed
            loop for a file with arrivals, or none for one without.
    """
    lines = [(number, line) for number, line in enumerate(text_of(path).splitlines(), 1) if line.strip()]
    if not lines:
        raise fail(path, "", "", "must have a request a line")
    read = [(number, _parsed(path, number, line)) for number, line in lines]
    if faults := list(_faults(path, read)):
        raise InputError(faults)
    rows = [row for _, row in read]
    prompts, outputs = (tuple(row[key] for row in rows) for key in LENGTHS)
    timed = [number for number, row in read if ARRIVAL in row]
    if timed and len(timed) < len(read):
        gap = next(number for number, row in read if ARRIVAL not in row)
        raise fail(path, f"line {gap}", "", f"must have {ARRIVAL}, as line {timed[0]} has it")
    if timed and concurrency:
        raise fail("dse serve", "--concurrency", concurrency, f"must not be given: {path} states when requests arrive")
    if not timed and not concurrency:
        raise fail(path, ARRIVAL, "", "must be given in every line, or --concurrency in its place")
    arrivals = tuple(float(row[ARRIVAL]) for row in rows) if timed else ()
    for (one, first), (two, second) in pairwise(zip((number for number, _ in read), arrivals, strict=bool(timed))):
        if second < first:
            raise fail(path, f"line {two}: {ARRIVAL}", second, f"must not be before line {one} ({first:g})")
    rate = 0.0
    if timed:
        if len(rows) < 2 or arrivals[-1] <= arrivals[0]:
            raise fail(path, ARRIVAL, "", "must differ: requests that all arrive at once have no rate")
        rate = (len(rows) - 1) / (arrivals[-1] - arrivals[0])
    return GivenRequests(
        _lengths(prompts), _lengths(outputs), concurrency, rate, prefix, hit_rate, prompts, outputs,
        tuple(each - arrivals[0] for each in arrivals),
    )  # fmt: skip


def _lengths(tokens: tuple[int, ...]) -> Lengths:
    return Lengths(min(tokens), max(tokens), sum(tokens) / len(tokens))


def _parsed(path: str, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        raise fail(path, f"line {number}", line, "must be a JSON object") from None
    if not isinstance(row, dict):
        raise fail(path, f"line {number}", line, "must be a JSON object")
    return row


def _faults(path: str, read: list[tuple[int, dict[str, Any]]]) -> Iterator[Fault]:
    known = (*LENGTHS, ARRIVAL)
    for number, row in read:
        where = f"line {number}"
        for key in row:
            if key not in known:
                meant = _MEANT.get(key.lower()) or nearest(key, known)
                unit = " in seconds" if meant == ARRIVAL else ""
                yield Fault(
                    path,
                    f"{where}: {shown(key)}",
                    "",
                    f"must be one of {', '.join(known)}",
                    f"{meant}{unit}" if meant else None,
                )
        for key in LENGTHS:
            value = row.get(key)
            if key not in row:
                yield Fault(path, f"{where}: {key}", "", "must be given")
            elif type(value) is not int or not 1 <= value <= _LARGEST:
                yield Fault(
                    path, f"{where}: {key}", shown(value), f"must be a whole number of tokens from 1 to {_LARGEST:,}"
                )
        if ARRIVAL in row and not _is_time(row[ARRIVAL]):
            yield Fault(path, f"{where}: {ARRIVAL}", shown(row[ARRIVAL]), "must be seconds, at least 0")


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
