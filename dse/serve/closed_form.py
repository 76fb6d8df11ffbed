"""What configurations cost by the closed form, in arrays: steps, steady state, memory.

A replica of p stages has p batches on their way, each of which sees whole passes: its tables are those of one stage
with the transfers between stages added, and its host works once a stage. Requests are spread evenly over all batches
of all ranks and replicas. A chip holds weights, what the largest step keeps, and keys and values in the rest of the
share of memory that the engine takes; with fewer layers in some stages, the fullest counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.plan.model import Transformer
from dse.run.remembered import Remembered, Same
from dse.serve.engine import Engine
from dse.serve.memory import activation_bytes, cache_bytes, end_bytes, weight_bytes
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import ServingPlan
from dse.serve.shape import Shape
from dse.serve.speculation import held_model
from dse.serve.steady_state import open_state, steady_state
from dse.serve.step_tables import TOKENS, KnownParts, StepTables
from dse.serve.step_work import StepWork
from dse.serve.vocabulary import Cell, Grid, plan_of
from hardware.kernel_times.form import Floats

_ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Room:
    """Memory of a chip, [N] each.

    Attributes:
        weights, activations, cache: bytes; ``cache`` is what keys and values may take.
        requests: that a rank holds to their end, of mean length.
        fits: whether it holds the longest.
    """

    weights: Floats
    activations: Floats
    cache: Floats
    requests: Floats
    fits: NDArray[np.bool_]


@dataclass(frozen=True)
class Priced:
    """Configurations of a cell, [N] each.

    Attributes:
        cell, grid: which.
        room: memory.
        ttft_s, tpot_s, latency_s: means of a request; infinite where nothing fits or no queue comes to rest.
        tokens_per_s: output of the whole machine.
        rate_per_s: the most requests that it answers.
        running: requests that a batch runs at once.
        devices: how many it uses.
    """

    cell: Cell
    grid: Grid
    room: Room
    ttft_s: Floats
    tpot_s: Floats
    latency_s: Floats
    tokens_per_s: Floats
    rate_per_s: Floats
    running: Floats
    devices: NDArray[np.int64]

    mode = "aggregated"

    def __len__(self) -> int:
        """How many."""
        return len(self.grid)

    def plan(self, row: int) -> ServingPlan:
        """The configuration in one row."""
        return plan_of(self.cell, self.grid, row)

    def ties(self) -> tuple[Floats, ...]:
        """What decides among equal ones, the least first."""
        own, ones = self.cell.shape, np.ones(len(self.grid))
        chunk, batch = self.grid.chunk.astype(np.float64), self.grid.batch.astype(np.float64)
        return own.tensor * ones, own.pipeline * ones, own.expert * ones, -chunk, batch, *(0.0 * ones,) * 3


TablesOf = Callable[[Cell], StepTables]


_PARTS: Remembered[KnownParts] = Remembered(4)
"""Of the models and chips that were asked about last."""


def tables_of(problem: ServeProblem, cell: Cell) -> StepTables:
    """Steps of a batch of the cell: passes through all stages."""
    whole = replace(cell.shape, pipeline=1)
    work = StepWork(problem.model, whole, cell.formats, problem.kernels)
    known = _PARTS.get((Same(problem.kernels), Same(problem.model), Same(problem.drafter or problem.model)), KnownParts)
    tables = known.tables(work, problem.speculation(cell.drafts))
    stages = cell.shape.pipeline
    if stages == 1:
        return tables
    network, chips = problem.system.network, cell.shape.chips
    sizes = TOKENS * problem.model.hidden * _ACTIVATION_BYTES
    sent = np.array([network.transfer_s(float(each), inside=chips <= problem.domain) for each in sizes])
    return replace(tables, exchange_s=tables.exchange_s + (stages - 1) * sent)


def piped(engine: Engine, stages: int) -> Engine:
    """The engine of so many stages, whose host works once a stage."""
    if stages == 1:
        return engine
    own = engine.constants.model_copy(update={"host_s": stages * engine.constants.host_s})
    return engine.model_copy(update={"constants": own})


def _fullest(model: Transformer, shape: Shape) -> float:
    """Layers of the fullest stage, over the mean of all."""
    return math.ceil(model.layers / shape.pipeline) * shape.pipeline / model.layers


def held_bytes(problem: ServeProblem, cell: Cell, tokens: float) -> float:
    """Of a chip of the fullest stage, for a request with so many tokens in its context."""
    speculation, shape = problem.speculation(cell.drafts), cell.shape
    model = held_model(problem.model, speculation)
    held = _fullest(model, shape) * cache_bytes(model, shape, cell.formats, tokens)
    if (own := speculation.drafter) is not None:
        held += cache_bytes(own.model, own.shape(shape), own.formats(cell.formats.cache_bytes), tokens)
    return held


def room(problem: ServeProblem, cell: Cell, batch: NDArray[np.int64], chunk: NDArray[np.int64]) -> Room:
    """Memory of a chip of the fullest stage."""
    speculation, load = problem.speculation(cell.drafts), problem.load
    model, shape, formats = held_model(problem.model, speculation), cell.shape, cell.formats
    ends = end_bytes(model, shape)
    weights = _fullest(model, shape) * (weight_bytes(model, shape, formats) - ends) + ends
    if (own := speculation.drafter) is not None:
        weights += weight_bytes(own.model, own.shape(shape), own.formats(formats.cache_bytes))
    activations = activation_bytes(model, shape, chunk, batch // shape.pipeline * (1 + cell.drafts))
    memory, rule = float(problem.system.chip.hbm_bytes), cell.engine.memory
    pool = (
        rule.value * (memory - (weights + activations)) if rule.of_rest else rule.value * memory - weights - activations
    )

    def held(tokens: float) -> float:
        return held_bytes(problem, cell, tokens)

    shared = held(load.prefix) if load.hit_rate else 0.0
    each = held(load.prompt.mean + load.output.mean) - load.hit_rate * held(load.prefix)
    requests = np.floor(np.maximum(pool - shared, 0.0) / each)
    fits = (pool >= held(problem.longest)) & (requests >= shape.pipeline)
    return Room(np.full(len(batch), weights), activations, np.maximum(pool, 0.0), requests, fits)


def priced(problem: ServeProblem, cell: Cell, columns: Grid, tables_for: TablesOf) -> Priced:
    """Configurations of a cell; its tables are made where any of them fits."""
    load, shape = problem.load, cell.shape
    memory = room(problem, cell, columns.batch, columns.chunk)
    devices = columns.replicas * shape.chips
    if not memory.fits.any():
        none = np.full(len(columns), np.inf)
        nothing = np.zeros(len(columns))
        return Priced(cell, columns, memory, none, none, none, nothing, nothing, nothing, devices)
    tables, engine = tables_for(cell), piped(cell.engine, shape.pipeline)
    groups = (columns.replicas * shape.attention_data * shape.pipeline).astype(np.float64)
    requests = np.maximum(np.minimum(columns.batch, memory.requests) // shape.pipeline, 1.0)
    chunk = columns.chunk.astype(np.float64)
    sharers = shape.attention_data * shape.pipeline
    if problem.is_open:
        state, capacity = open_state(tables, engine, load, load.rate_per_s / groups, requests, chunk, sharers)
        tokens_per_s, rate = groups * state.tokens_per_s, groups * capacity
    else:
        busy = np.minimum(groups, load.concurrency)
        clients = np.maximum(load.concurrency / groups, 1.0)
        state = steady_state(tables, engine, load, clients, requests, chunk, sharers)
        tokens_per_s = busy * state.tokens_per_s
        rate = tokens_per_s / load.output.mean
    lost = np.where(memory.fits, 0.0, np.inf)
    answered = memory.fits & np.isfinite(state.latency_s)
    return Priced(
        cell, columns, memory, state.ttft_s + lost, state.tpot_s + lost, state.latency_s + lost,
        np.where(answered, tokens_per_s, 0.0), np.where(memory.fits, rate, 0.0), state.running, devices,
    )  # fmt: skip
