"""Workers for prompts and workers for decodes, priced by themselves: all sizes of every shape, in arrays.

A pair of the two answers requests; what both have in common is engine, formats and drafts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.serve.closed_form import held_bytes, piped, room, tables_of
from dse.serve.disaggregated import prompt_seconds
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import SplitPlan, split_plan
from dse.serve.shape import Shape
from dse.serve.step_seconds import StepSeconds
from dse.serve.step_tables import BATCHES, TOKENS
from dse.serve.vocabulary import Cell, worker_cells, worker_grid
from hardware.kernel_times.form import Floats

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PrefillWorkers:
    """All that compute prompts, [P] each.

    Attributes:
        cells: of them.
        cell: the number of each one's.
        replicas, chunk: sizes.
        devices, ranks: of all workers of a kind.
        prompt_s: of a prompt where steps are full of prompts.
        alone_s: from the sending of a request to the end of its prompt where nothing waits.
        sent_bytes: of a prompt, by the chip that sends the most.
        legal: accelerators of sizes that there are, those that memory does not hold included.
    """

    cells: tuple[Cell, ...]
    cell: Integers
    replicas: Integers
    chunk: Integers
    devices: Integers
    ranks: Floats
    prompt_s: Floats
    alone_s: Floats
    sent_bytes: Floats
    legal: Integers


@dataclass(frozen=True)
class DecodeWorkers:
    """All that decode, [D] each.

    Attributes:
        cells: of them.
        cell: the number of each one's.
        replicas, batch: sizes.
        devices, ranks: of all workers of a kind.
        requests: that a rank can run at once, by its limit and its memory.
        received_bytes: of a prompt, by each chip.
        points: requests of a rank, between which TPOT is linear.
        token_s: [cells, points], TPOT.
        legal: accelerators of sizes that there are, those that memory does not hold included.
    """

    cells: tuple[Cell, ...]
    cell: Integers
    replicas: Integers
    batch: Integers
    devices: Integers
    ranks: Floats
    requests: Floats
    received_bytes: Floats
    points: Floats
    token_s: Floats
    legal: Integers

    def pace(self, cell: Integers, running: Floats) -> Floats:
        """TPOT of so many requests on a rank of such cells, [N]; linear between points, as all its parts are."""
        right = np.clip(np.searchsorted(self.points, running), 1, len(self.points) - 1)
        low, high = self.points[right - 1], self.points[right]
        left_s, right_s = self.token_s[cell, right - 1], self.token_s[cell, right]
        return np.asarray(left_s + (right_s - left_s) * (running - low) / (high - low))


@dataclass(frozen=True)
class Kinds:
    """The workers that may be paired: of one engine, with the same formats."""

    prefill: PrefillWorkers
    decode: DecodeWorkers

    def plan(self, prefill: int, decode: int) -> SplitPlan:
        """Of two rows."""
        one, other = self.prefill, self.decode
        prompts = one.cells[one.cell[prefill]].plan(int(one.replicas[prefill]), 1, int(one.chunk[prefill]))
        tokens = other.cells[other.cell[decode]].plan(int(other.replicas[decode]), int(other.batch[decode]), 1)
        return split_plan(prompts, tokens)


def kinds(problem: ServeProblem) -> Iterator[Kinds]:
    """All that may be paired, one engine and format after another."""
    both: dict[tuple[object, ...], tuple[list[Cell], list[Cell]]] = {}
    for place, part in enumerate(("prefill", "decode")):
        for cell in worker_cells(problem, part):
            key = (cell.engine.name, cell.precision, cell.kv_precision, cell.drafts)
            both.setdefault(key, ([], []))[place].append(cell)
    for prefill, decode in both.values():
        if prefill and decode:
            yield Kinds(_prefill(problem, prefill), _decode(problem, decode))


def held_prompts(problem: ServeProblem, chunk: NDArray[np.int64]) -> Floats:
    """Of the longest, whose keys and values a prefill rank holds: those of a step, and one that moves, [N]."""
    return np.asarray(1.0 + np.maximum(chunk // problem.load.prompt.mean, 1.0))


def _prefill(problem: ServeProblem, cells: list[Cell]) -> PrefillWorkers:
    load, legal = problem.load, [np.zeros(0, np.int64)]
    parts = [np.zeros((8, 0))]
    for number, cell in enumerate(cells):
        columns, shape = worker_grid(problem, cell, "prefill"), cell.shape
        legal.append(columns.replicas * shape.chips)
        memory = room(problem, cell, columns.batch, columns.chunk)
        longest = shape.pipeline * held_bytes(problem, cell, load.prompt.high)
        fits = np.flatnonzero(memory.cache >= held_prompts(problem, columns.chunk) * longest)
        if not len(fits):
            continue
        steps = StepSeconds(tables_of(problem, cell), piped(cell.engine, shape.pipeline))
        chunks, places = np.unique(columns.chunk[fits], return_inverse=True)
        seconds = np.array([prompt_seconds(steps, load.prompt.mean, int(each)) for each in chunks])[places]
        sent, ones = sent_of(problem, cell), np.ones(len(fits))
        every = columns.replicas[fits] * shape.attention_data * shape.pipeline
        alone = seconds[:, 1] + cell.engine.constants.before_s(load.prompt.mean)
        sizes = columns.replicas[fits], columns.chunk[fits], legal[-1][fits], every
        parts.append(np.array([number * ones, *sizes, seconds[:, 0], alone, sent * ones]))
    each = np.concatenate(parts, axis=1)
    cell_of, replicas, chunk, devices = each[:4].astype(np.int64)
    ranks, prompt_s, alone_s, sent = each[4:]
    return PrefillWorkers(
        tuple(cells), cell_of, replicas, chunk, devices, ranks, prompt_s, alone_s, sent, np.concatenate(legal)
    )


def _decode(problem: ServeProblem, cells: list[Cell]) -> DecodeWorkers:
    load, legal = problem.load, [np.zeros(0, np.int64)]
    parts, paces = [np.zeros((7, 0))], []
    verified = TOKENS / (1.0 + cells[0].drafts)
    points = np.union1d(BATCHES, verified[(verified >= BATCHES[0]) & (verified <= BATCHES[-1])])
    context = np.full(len(points), load.prompt.mean + load.output.mean / 2)
    for number, cell in enumerate(cells):
        columns, shape = worker_grid(problem, cell, "decode"), cell.shape
        legal.append(columns.replicas * shape.chips)
        memory = room(problem, cell, columns.batch, columns.chunk)
        fits = np.flatnonzero(memory.fits)
        paces.append(np.ones(len(points)))
        if not len(fits):
            continue
        steps = StepSeconds(tables_of(problem, cell), piped(cell.engine, shape.pipeline))
        paces[-1] = steps.token_s(points, context)
        requests = np.minimum(columns.batch[fits], memory.requests[fits]) // shape.pipeline
        received, ones = received_of(problem, cell), np.ones(len(fits))
        every = columns.replicas[fits] * shape.attention_data * shape.pipeline
        sizes = columns.replicas[fits], columns.batch[fits], legal[-1][fits], every
        parts.append(np.array([number * ones, *sizes, np.maximum(requests, 1.0), received * ones]))
    each = np.concatenate(parts, axis=1)
    cell_of, replicas, batch, devices = each[:4].astype(np.int64)
    ranks, requests, received = each[4:]
    return DecodeWorkers(
        tuple(cells), cell_of, replicas, batch, devices, ranks, requests, received, points,
        np.array(paces), np.concatenate(legal),
    )  # fmt: skip


def sent_of(problem: ServeProblem, cell: Cell) -> float:
    """Bytes of a prompt that each chip of a prefill rank sends, what proposes tokens included."""
    return _prompt_bytes(problem, replace(cell, shape=Shape())) / (cell.shape.tensor * cell.shape.pipeline)


def received_of(problem: ServeProblem, cell: Cell) -> float:
    """Bytes of a prompt that each chip of a decode rank receives."""
    return _prompt_bytes(problem, replace(cell, shape=replace(cell.shape, pipeline=1))) / cell.shape.pipeline


def _prompt_bytes(problem: ServeProblem, cell: Cell) -> float:
    return held_bytes(problem, cell, problem.load.prompt.mean)
