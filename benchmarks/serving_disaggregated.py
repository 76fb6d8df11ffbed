"""Predicted and measured latency where prompts and tokens are computed by workers of their own.

Rows of ``serving/measured_disagg.csv`` in the folder that DSE_CASES names; no constant was fitted to any of them. They
state workers and clients, and no limits: steps have the engine's tokens, or the longest prompt; decode ranks take as
many requests as memory holds. Keys and values move over the links inside the system where all workers are within one,
else over those outside.
"""

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from benchmarks.serving_rows import formats_of, load_of
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.serve.disaggregated import Split, disaggregated_state, transfer_s
from dse.serve.disaggregated_simulation import simulated_apart
from dse.serve.engine import Engine, engine
from dse.serve.load import Load
from dse.serve.memory import cache_bytes, weight_bytes
from dse.serve.shape import Formats, Shape
from dse.serve.step_tables import StepTables, step_tables
from dse.serve.step_work import StepWork
from hardware.chips import system
from hardware.kernel_model import kernel_model
from tests.shared_data import case_of_others

RECORD = Record(
    "serving_disaggregated",
    ("rows", "tpot_mean", "tpot_median", "ttft_median", "closed_tpot", "closed_ttft"),
    {
        "classes": (
            "rows of", "rows", "TPOT: mean, %", "median, %", "bias, %", "TTFT: mean, %", "median, %", "bias, %",
            "closed form, TPOT: median, %", "TTFT: median, %",
        ),
    },
)  # fmt: skip

_SAME_MODEL = {"deepseek-r1": "deepseek-v3"}
_LARGEST_BATCH = 4096


@dataclass(frozen=True)
class Compared:
    """A row and the relative errors of its prediction, by events and by the closed form."""

    row: Mapping[str, str]
    tpot: float
    ttft: float
    closed_tpot: float
    closed_ttft: float


def shape_of(row: Mapping[str, str], role: str) -> Shape:
    """Of one worker."""
    tensor, attention_data, expert_tensor, expert = (
        int(row[f"{role}_{key}"]) for key in ("tp", "attention_dp", "moe_tp", "moe_ep")
    )
    return Shape(tensor, attention_data, expert, expert_tensor)


@cache
def tables_of(model: str, chip: str, shape: Shape, formats: Formats) -> StepTables:
    """The step tables of a worker."""
    return step_tables(StepWork(transformer(model), shape, formats, kernel_model(chip)))


def split_of(row: Mapping[str, str], load: Load, own: Engine) -> tuple[Split, int]:
    """The workers of a row, and how many requests of mean length a decode rank's memory holds."""
    name, formats = _SAME_MODEL.get(row["model"], row["model"]), formats_of({**row, "origin": "inferencex"})
    model, shapes = transformer(name), {role: shape_of(row, role) for role in ("prefill", "decode")}
    tables = {role: tables_of(name, row["gpu"], shape, formats) for role, shape in shapes.items()}
    ranks = {role: int(row[f"{role}_workers"]) * shape.attention_data for role, shape in shapes.items()}
    room = _cache_tokens(model, shapes["decode"], formats, own, row["gpu"])
    longest = load.prompt.high + load.output.high
    requests = min(max(int(room / (load.prompt.mean + load.output.mean)), 1), _LARGEST_BATCH)
    network = system(row["gpu"]).network
    inside = network.inner if int(row["gpus"]) <= network.inner_accelerators else None
    rate = (inside or network).bytes_per_s
    each = transfer_s(model, shapes["prefill"], shapes["decode"], formats, load.prompt.mean, rate) / load.prompt.mean
    split = Split(
        tables["prefill"], tables["decode"], ranks["prefill"], ranks["decode"],
        max(own.step_tokens.value, load.prompt.high), _LARGEST_BATCH, max(room, longest),
        (inside or network).latency_s, each,
    )  # fmt: skip
    return split, requests


def _cache_tokens(model: Transformer, shape: Shape, formats: Formats, own: Engine, chip: str) -> float:
    memory, weights = float(kernel_model(chip).chip.hbm_bytes), weight_bytes(model, shape, formats)
    rule = own.memory
    free = rule.value * (memory - weights) if rule.of_rest else rule.value * memory - weights
    return max(free, 0.0) / cache_bytes(model, shape, formats, 1.0)


def compared(row: Mapping[str, str]) -> Compared:
    """Errors of one row."""
    own, load = engine(row["engine"]), load_of(row)
    split, requests = split_of(row, load, own)
    told = simulated_apart(split, own, load, 10 * load.concurrency)
    sizes = (load.concurrency, split.prefill_ranks, split.decode_ranks, requests)
    closed = disaggregated_state(split, own, load, *(np.array([float(each)]) for each in sizes))
    tpot, ttft = 1e-3 * float(row["tpot_ms"]), 1e-3 * float(row["ttft_ms"])
    return Compared(
        row,
        told.mean_tpot_s / tpot - 1,
        told.mean_ttft_s / ttft - 1,
        float(closed.tpot_s[0]) / tpot - 1,
        float(closed.ttft_s[0]) / ttft - 1,
    )


def rows_apart() -> list[dict[str, str]]:
    """Of the shared table."""
    with case_of_others("serving", "measured_disagg.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(rows: Sequence[Compared]) -> list[Any]:
    """The cells of a class of rows."""

    def size(measure: Callable[[list[float]], float], errors: list[float]) -> float:
        return round(measure([100 * abs(error) for error in errors]), 1)

    cells: list[Any] = [len(rows)]
    for errors in ([each.tpot for each in rows], [each.ttft for each in rows]):
        cells += [size(statistics.fmean, errors), size(statistics.median, errors)]
        cells.append(round(100 * statistics.fmean(errors), 1))
    closed = ([each.closed_tpot for each in rows], [each.closed_ttft for each in rows])
    return cells + [size(statistics.median, errors) for errors in closed]


def show(results: Results, judged: Sequence[Compared]) -> None:
    """The table of errors."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for each in judged:
        row = each.row
        wide = "experts over more than 8 GPUs" if int(row["decode_moe_ep"]) > 8 else ""
        names = ("all", row["gpu"], row["engine"], f"{row['engine']} on {row['gpu']}", row["precision"], wide)
        for name in filter(None, names):
            groups[name].append(each)
    for name in ("all", *sorted(set(groups) - {"all"})):
        results.row("classes", name, *summary(groups[name]))
    whole = summary(judged)
    for figure, place in (
        ("tpot_mean", 1),
        ("tpot_median", 2),
        ("ttft_median", 5),
        ("closed_tpot", 7),
        ("closed_ttft", 8),
    ):
        results.figure(figure, f"{whole[place]:.1f} %")
    results.figure("rows", len(judged))
    assert all(math.isfinite(each.tpot) for each in judged), "every row is answered"


if __name__ == "__main__":
    arguments = parser_of(__doc__).parse_args()
    results = Results(RECORD)
    show(results, [compared(row) for row in rows_apart()])
    results.save(arguments.record)
