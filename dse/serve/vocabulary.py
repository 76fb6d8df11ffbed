"""The finite set of configurations that is searched, by cells: all that share engine, shape and formats.

Powers of two stand for sizes that rules leave open: depths of pipelines, groups with requests of their own, batches.
A batch is not larger than the least that holds all requests of its rank at once: larger ones do the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dse.serve.checkpoints import formats_of
from dse.serve.engine import Engine
from dse.serve.problem import ServeProblem
from dse.serve.rules import broken, broken_alone, tensor_widths
from dse.serve.serving_plan import ServingPlan, own_keys
from dse.serve.shape import Formats, Shape, WeightFormat
from dse.serve.step_tables import BATCHES

Integers = NDArray[np.int64]

CHUNKS = (2048, 4096, 8192, 16384, 32768)
"""New tokens of a step that are tried."""

LARGEST_BATCH = int(BATCHES[-1])


@dataclass(frozen=True)
class Cell:
    """What configurations of one table of steps share."""

    engine: Engine
    shape: Shape
    precision: WeightFormat
    kv_precision: str
    formats: Formats
    drafts: int = 0

    def plan(self, replicas: int, batch: int, chunk: int) -> ServingPlan:
        """One of them."""
        own = self.shape
        return ServingPlan(
            "aggregated", self.engine.name, own.tensor, own.pipeline, own.attention_data, own.expert, own.expert_tensor,
            replicas, batch, chunk, self.precision, self.kv_precision, self.drafts,
        )  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Configurations of a cell, [N] each."""

    replicas: Integers
    batch: Integers
    chunk: Integers

    def __len__(self) -> int:
        """How many."""
        return len(self.replicas)


def modes(problem: ServeProblem) -> tuple[str, ...]:
    """Those that are searched: the fixed one, or all that are asked for."""
    stated = dict(problem.fixed).get("mode")
    return problem.modes if stated is None else (stated,)


def cells(problem: ServeProblem) -> Iterator[Cell]:
    """All of configurations that do everything on each chip, which keep the rules, and what is fixed."""
    if "aggregated" in modes(problem):
        yield from _cells(problem, own_keys(dict(problem.fixed), "aggregated"), _is_legal)


def worker_cells(problem: ServeProblem, part: str) -> Iterator[Cell]:
    """All of the workers that ``prefill`` or ``decode``."""
    if "disaggregated" in modes(problem):
        yield from _cells(problem, own_keys(dict(problem.fixed), part), _is_legal_alone)


def _cells(
    problem: ServeProblem, fixed: dict[str, Any], is_legal: Callable[[ServeProblem, Cell], bool]
) -> Iterator[Cell]:
    for engine in problem.engines:
        if fixed.get("engine", engine.name) != engine.name:
            continue
        for precision in _fixed(fixed, "precision", problem.precisions):
            for kv_precision in _fixed(fixed, "kv_precision", problem.caches):
                formats = formats_of(problem.model, cast(WeightFormat, precision), kv_precision)
                for shape in _shapes(problem, fixed):
                    for drafts in _fixed(fixed, "drafts", problem.drafts):
                        cell = Cell(engine, shape, cast(WeightFormat, precision), kv_precision, formats, drafts)
                        if is_legal(problem, cell):
                            yield cell


def grid(problem: ServeProblem, cell: Cell) -> Grid:
    """Its configurations."""
    fixed = dict(problem.fixed)
    pipeline, chips = cell.shape.pipeline, cell.shape.chips
    rows: list[tuple[int, int, int]] = []
    for replicas in _fixed(fixed, "replicas", range(1, problem.devices // chips + 1)):
        if replicas * chips > problem.devices:
            continue
        for batch in _fixed(fixed, "batch", batches(problem, cell, replicas)):
            if batch % pipeline:
                continue
            rows += [
                (replicas, batch, chunk)
                for chunk in _fixed(fixed, "chunk", chunks(problem, cell, batch // pipeline))
                if chunk >= least_chunk(problem, cell, batch // pipeline)
            ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Grid(columns[0], columns[1], columns[2])


def worker_grid(problem: ServeProblem, cell: Cell, part: str) -> Grid:
    """Its configurations as workers that ``prefill`` or ``decode``; the other size follows, as of a split plan."""
    fixed, own = own_keys(dict(problem.fixed), part), cell.shape
    rows: list[tuple[int, int, int]] = []
    for replicas in _fixed(fixed, "replicas", range(1, problem.devices // own.chips + 1)):
        if part == "prefill":
            least = problem.load.prompt.high if cell.engine.steps.value == "whole prompts" else 1
            sizes = [each for each in _fixed(fixed, "chunk", _chunks(least)) if each >= least]
            rows += [(replicas, own.pipeline, chunk) for chunk in sizes]
        else:
            sizes = _fixed(fixed, "batch", batches(problem, cell, replicas))
            tokens = 1 + cell.drafts
            rows += [(replicas, size, size // own.pipeline * tokens) for size in sizes if size % own.pipeline == 0]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Grid(columns[0], columns[1], columns[2])


def batches(problem: ServeProblem, cell: Cell, replicas: int) -> list[int]:
    """Requests that a rank may run at once, ascending."""
    pipeline = cell.shape.pipeline
    rank = -(-problem.load.concurrency // (replicas * cell.shape.attention_data))
    most = LARGEST_BATCH * pipeline if problem.is_open else min(max(rank, pipeline), LARGEST_BATCH * pipeline)
    sizes = [pipeline]
    while sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return sizes


def chunks(problem: ServeProblem, cell: Cell, together: int) -> list[int]:
    """New tokens of a step, ascending, for so many requests; where none is enough, the next multiple that is."""
    return _chunks(least_chunk(problem, cell, together))


def _chunks(least: int) -> list[int]:
    return [each for each in CHUNKS if each >= least] or [-(-least // CHUNKS[0]) * CHUNKS[0]]


def least_chunk(problem: ServeProblem, cell: Cell, together: int) -> int:
    """The fewest new tokens of a step that the engine takes."""
    whole = cell.engine.steps.value == "whole prompts"
    return together * (1 + cell.drafts) + (problem.load.prompt.high if whole else 0)


def _fixed(fixed: dict[str, Any], key: str, values: Any) -> Any:
    return (fixed[key],) if key in fixed else values


def _shapes(problem: ServeProblem, fixed: dict[str, Any]) -> Iterator[Shape]:
    for tensor in _fixed(fixed, "tensor", tensor_widths(problem)):
        for attention_data in _fixed(fixed, "attention_data", _powers(problem.domain // tensor)):
            stage = tensor * attention_data
            for expert in _fixed(fixed, "expert", [each for each in range(1, stage + 1) if stage % each == 0]):
                expert_tensor = fixed.get("expert_tensor", max(stage // expert, 1))
                for pipeline in _fixed(fixed, "pipeline", _powers(min(problem.devices // stage, problem.model.layers))):
                    if stage * pipeline <= problem.devices:
                        yield Shape(tensor, attention_data, expert, expert_tensor, pipeline)


def _powers(most: int) -> list[int]:
    """Powers of two up to ``most``."""
    return [1 << power for power in range(max(most, 0).bit_length())]


def _is_legal(problem: ServeProblem, cell: Cell) -> bool:
    """Whether the cell keeps the rules that all its configurations share."""
    small = cell.plan(1, cell.shape.pipeline, 2 * (CHUNKS[-1] + problem.load.prompt.high))
    return not broken(problem, small)


def _is_legal_alone(problem: ServeProblem, cell: Cell) -> bool:
    """Whether it keeps the rules of workers of one kind."""
    return not broken_alone(problem, cell.plan(1, cell.shape.pipeline, CHUNKS[0]))


def plan_of(cell: Cell, columns: Grid, row: int) -> ServingPlan:
    """The configuration in one row."""
    return cell.plan(int(columns.replicas[row]), int(columns.batch[row]), int(columns.chunk[row]))
