"""Predicted and measured latency of serving: errors by model, chip and engine, on rows that nothing was fitted to.

``python -m benchmarks.serving --rows FILE [--json]`` takes any table of the form of ``serving/measured.csv``; without
``--rows``, the one in the folder that DSE_CASES names. Configurations that constants were fitted to
(:mod:`benchmarks.serving_rows`) are left out. ``--intervals`` writes what intervals of ``dse serve`` rest on, and
``--fit`` fits the constants of the engines again and prints them.

TPOT and TTFT are means over requests, by events (:mod:`dse.serve.events`). TTFT is compared on rows of the public
benchmark, whose arrivals are known; rows whose weights fill more than nine tenths of memory are apart.
"""

import csv
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.recording import Record, Results, parser_of
from benchmarks.serving_rows import ServingRow, serving_rows
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.serve.engine import Constants, Engine, engine, list_engines
from dse.serve.intervals import FILE
from dse.serve.memory import cache_bytes, weight_bytes
from dse.serve.shape import WEIGHT_BYTES
from dse.serve.simulation import Limits, Outcome, simulated
from dse.serve.step_tables import StepTables, step_tables
from dse.serve.step_work import StepWork
from hardware.documents import yaml_of
from hardware.inputs import InputError
from hardware.kernel_model import KernelModel, kernel_model
from tests.shared_data import case_of_others

COLUMNS = ("n", "full", "tpot_mean", "tpot_median", "tpot_bias", "ttft_mean", "ttft_median")

RECORD = Record(
    "serving",
    ("tpot_mean", "tpot_median", "ttft_median", "rows", "not_priced", "order", "apart"),
    {
        "classes": (
            "rows of", "rows", "with full memory, apart", "TPOT: mean, %", "median, %", "bias, %", "TTFT: mean, %",
            "median, %",
        ),
        "aiconfigurator": ("", "rows", "TPOT: mean", "median", "TTFT: mean", "median"),
    },
)  # fmt: skip

APART = 0.15
"""Two runs of which the order counts differ by more."""

FULL = 0.9
"""Rows whose weights fill more of memory are reported apart."""

_SAME_MODEL = {"deepseek-r1": "deepseek-v3"}

INTERVALS = Path(__file__).parents[1] / "dse" / "serve" / FILE

FITTED = ("kernels", "starts", "collectives", "host_s", "layer_s", "launch_s", "request_s")
_START = (1.0, 1.0, 1.0, 1e-3, 1e-5, 3e-4, 0.02)
_SPREAD = (0.15, 0.3, 0.3, 0.7, 0.7, 0.7, 1.5)
"""Standard deviations of the logarithms of the constants before any run is seen: kernels were timed, hosts were not."""

_NOISE = 0.1
"""Of the logarithm of a row."""

_ROWS_OF_ONE = 3

_LOW = (0.3, 0.1, 0.3, 1e-6, 1e-8, 1e-7, 1e-5)
_HIGH = (3.0, 4.0, 4.0, 3e-2, 2e-4, 2e-3, 2.0)


@cache
def _model(name: str) -> Transformer:
    return transformer(_SAME_MODEL.get(name, name))


@cache
def _kernels(chip: str) -> KernelModel:
    return kernel_model(chip)


@cache
def tables_of(row: ServingRow) -> StepTables:
    """The step tables of a row's shape."""
    return step_tables(StepWork(_model(row.model), row.shape, row.formats, _kernels(row.chip)))


def stack_of(row: ServingRow) -> str:
    """The name of the engine's constants: those of runs with a known harness, or of NVIDIA's own."""
    return row.engine if row.origin == "inferencex" else f"{row.engine}-lab"


def filled(row: ServingRow) -> float:
    """Share of memory that weights take."""
    return weight_bytes(_model(row.model), row.shape, row.formats) / _kernels(row.chip).chip.hbm_bytes


def limits_of(row: ServingRow, own: Engine) -> Limits:
    """As recipes set them: every request of the row runs; the longest fits memory, and its prompt a step."""
    requests = math.ceil(row.load.concurrency / row.shape.attention_data)
    tokens = row.load.prompt.mean + row.load.output.mean
    each = cache_bytes(_model(row.model), row.shape, row.formats, tokens)
    memory = _kernels(row.chip).chip.hbm_bytes
    weights = weight_bytes(_model(row.model), row.shape, row.formats)
    rule = own.memory
    free = rule.value * (memory - weights) if rule.of_rest else rule.value * memory - weights
    longest = row.load.prompt.high + row.load.output.high
    room = max(max(free, 0.02 * memory) / each * tokens, longest)
    step_tokens = int(own.step_tokens.value)
    if own.steps.value == "whole prompts":
        step_tokens = max(step_tokens, row.load.prompt.high + requests)
    return Limits(step_tokens, requests, room)


def outcome(row: ServingRow, own: Engine, rounds: int = 10) -> Outcome:
    """Of one rank, whose clients send ``rounds`` requests each."""
    ranks = row.shape.attention_data
    clients = math.ceil(row.load.concurrency / ranks)
    load = type(row.load)(row.load.prompt, row.load.output, clients)
    return simulated(tables_of(row), own, limits_of(row, own), load, rounds * clients)


@dataclass(frozen=True)
class Compared:
    """A row and the relative errors of its prediction."""

    row: ServingRow
    ttft: float
    tpot: float
    is_full: bool


def compared(rows: Iterable[ServingRow], engines: Mapping[str, Engine]) -> list[Compared]:
    """Errors of the rows that can be posed."""
    answers = []
    for row in rows:
        own = outcome(row, engines[stack_of(row)])
        ttft, tpot = own.mean_ttft_s / row.ttft_s - 1, own.mean_tpot_s / row.tpot_s - 1
        answers.append(Compared(row, ttft, tpot, filled(row) > FULL))
    return answers


def can_be_posed(row: ServingRow) -> bool:
    """Whether engine, format, model and chip are known."""
    if stack_of(row) not in list_engines() or row.formats.weights not in WEIGHT_BYTES:
        return False
    try:
        tables_of(row)
    except InputError:
        return False
    return True


def is_held_up(row: ServingRow) -> bool:
    """Whether its requests wait for longer than they run: its server had a limit that the row does not state."""
    return row.ttft_s > row.load.output.mean * row.tpot_s


def fitted_constants(rows: Sequence[ServingRow], own: Engine) -> dict[str, float]:
    """Constants of a stack, fitted to TPOT of its marked rows; then ``request_s``, which TPOT does not depend on, to
    TTFT where arrivals are known.

    Errors within a configuration are much alike: it counts as :data:`_ROWS_OF_ONE` rows however many it has.
    """
    counts = Counter(row.configuration for row in rows)
    first, last = FITTED[:-1], FITTED[-1:]

    def with_values(values: Mapping[str, float]) -> Engine:
        return own.model_copy(update={"constants": Constants(**values, source="being fitted")})

    def fitted(
        names: Sequence[str], others: Mapping[str, float], of: Sequence[ServingRow], key: str
    ) -> dict[str, float]:
        places = [FITTED.index(name) for name in names]
        start, spread = np.log([_START[place] for place in places]), np.array([_SPREAD[place] for place in places])
        bounds = tuple(np.log([each[place] for place in places]) for each in (_LOW, _HIGH))

        def residuals(values: Any) -> list[float]:
            errors: list[float] = (_NOISE * (values - start) / spread).tolist()
            tried = with_values({**others, **dict(zip(names, np.exp(values).tolist(), strict=True))})
            for row in of:
                weight = math.sqrt(_ROWS_OF_ONE / counts[row.configuration])
                told = getattr(outcome(row, tried, rounds=4), f"mean_{key}")
                errors.append(weight * math.log(told / getattr(row, key)))
            return errors

        fit = least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=_NOISE, diff_step=1e-2)
        return {**others, **dict(zip(names, np.exp(fit.x).tolist(), strict=True))}

    values = fitted(first, dict(zip(last, _START[-1:], strict=True)), rows, "tpot_s")
    known = [row for row in rows if row.origin == "inferencex"]
    values = fitted(last, {name: values[name] for name in first}, known, "ttft_s") if known else values
    return {name: float(f"{values[name]:.4g}") for name in FITTED}


def summary(rows: Sequence[Compared]) -> dict[str, Any]:
    """Errors in per cent: TPOT of all rows, TTFT of those with known arrivals; full memories apart."""
    free = [each for each in rows if not each.is_full]
    tpot = [100 * abs(each.tpot) for each in free]
    ttft = [100 * abs(each.ttft) for each in free if each.row.origin == "inferencex"]
    told: dict[str, Any] = {"n": len(free), "full": len(rows) - len(free)}
    for name, errors in (("tpot", tpot), ("ttft", ttft)):
        told[f"{name}_mean"] = round(statistics.fmean(errors), 2) if errors else None
        told[f"{name}_median"] = round(statistics.median(errors), 2) if errors else None
    told["tpot_bias"] = round(statistics.fmean(100 * each.tpot for each in free), 2) if free else None
    return told


def document(rows: Sequence[Compared], left_out: Sequence[ServingRow]) -> dict[str, Any]:
    """Errors of all rows, and by model, chip and engine."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for each in rows:
        row = each.row
        for name in ("all", row.model, row.chip, row.engine, f"{row.engine} {row.origin}"):
            groups[name].append(each)
    return {
        "classes": {name: summary(groups[name]) for name in ["all", *sorted(set(groups) - {"all"})]},
        "not_priced": sorted({row.configuration for row in left_out}),
    }


def show(results: Results, judged: Sequence[Compared], left_out: Sequence[ServingRow]) -> None:
    """The tables of errors, and AIConfigurator's on the rows that both have."""
    classes = document(judged, left_out)["classes"]
    for name, each in classes.items():
        results.row("classes", name, *(each[key] for key in COLUMNS))
    theirs = published()
    shared = [each for each in judged if each.row.key in theirs]
    for name, tpot, ttft in (
        ("ours", [each.tpot for each in shared], [each.ttft for each in shared]),
        (
            "AIConfigurator 0.12.0",
            [theirs[each.row.key][1] / each.row.tpot_s - 1 for each in shared],
            [theirs[each.row.key][0] / each.row.ttft_s - 1 for each in shared],
        ),
    ):
        sizes = [[100 * abs(error) for error in errors] for errors in (tpot, ttft)]
        cells = (f"{measure(errors):.1f} %" for errors in sizes for measure in (statistics.fmean, statistics.median))
        results.row("aiconfigurator", name, len(shared), *cells)
    whole = classes["all"]
    results.figure("tpot_mean", f"{whole['tpot_mean']:.1f} %")
    results.figure("tpot_median", f"{whole['tpot_median']:.1f} %")
    results.figure("ttft_median", f"{whole['ttft_median']:.1f} %")
    results.figure("rows", whole["n"])
    results.figure("not_priced", ", ".join(sorted({row.model for row in left_out})) or "none")
    right, pairs = ordered(judged)
    results.figure("order", f"{right} of {pairs}")
    results.figure("apart", f"{APART:.0%}".replace("%", " %"))


def ordered(judged: Sequence[Compared]) -> tuple[int, int]:
    """Pairs of runs of one model, chip and load whose measured TPOT differs by over :data:`APART`; how many of them
    are predicted in that order."""
    groups: dict[object, list[Compared]] = defaultdict(list)
    for each in judged:
        row = each.row
        groups[row.model, row.chip, row.origin, row.load].append(each)
    right = total = 0
    for group in groups.values():
        for first, second in combinations(group, 2):
            measured = first.row.tpot_s / second.row.tpot_s
            if first.row.configuration == second.row.configuration or max(measured, 1 / measured) <= 1 + APART:
                continue
            predicted = measured * (1 + first.tpot) / (1 + second.tpot)
            total += 1
            right += (predicted > 1) == (measured > 1)
    return right, total


def intervals_text(judged: Sequence[Compared], fitted: Sequence[ServingRow]) -> str:
    """The content of ``dse/serve/intervals.yaml``: sizes of log errors by engine, full memories left out."""
    engines: dict[str, Any] = {}
    for stack in sorted({stack_of(each.row) for each in judged}):
        own = [each for each in judged if stack_of(each.row) == stack and not each.is_full]
        models = sorted({_SAME_MODEL.get(row.model, row.model) for row in fitted if stack_of(row) == stack})
        known = [each for each in own if _SAME_MODEL.get(each.row.model, each.row.model) in models]
        other = [each for each in own if each not in known]
        chips = sorted({each.row.chip for each in own})
        engines[stack] = {"chips": chips, "models": models, "known": _sizes(known), "other": _sizes(other)}
    head = (
        "# Written by python -m benchmarks.serving --intervals: |log(measured / predicted)| of means over requests.\n"
    )
    return head + yaml_of({"engines": engines}, sort_keys=False, width=120, default_flow_style=None)


def _sizes(rows: Sequence[Compared]) -> dict[str, list[float]]:
    return {
        "tpot": sorted(round(abs(math.log1p(each.tpot)), 4) for each in rows),
        "ttft": sorted(round(abs(math.log1p(each.ttft)), 4) for each in rows if each.row.origin == "inferencex"),
    }


def published() -> dict[str, tuple[float, float]]:
    """(TTFT, TPOT) in s that AIConfigurator predicts, by the key of the row."""
    with case_of_others("serving", "aiconfigurator.csv").open(newline="", encoding="utf-8") as file:
        return {row["id"]: (1e-3 * float(row["ttft_ms"]), 1e-3 * float(row["tpot_ms"])) for row in csv.DictReader(file)}


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="another table of this form")
    parser.add_argument("--json", action="store_true", help="print a document")
    parser.add_argument("--intervals", action="store_true", help="write the errors that intervals rest on")
    parser.add_argument("--fit", action="store_true", help="fit the constants of the engines again")
    arguments = parser.parse_args()
    try:
        everything = serving_rows(arguments.rows)
    except KeyError as error:
        parser.exit(2, f"error: --rows: {arguments.rows}: {error.args[0]}: must be a column\n")
    except OSError as error:
        parser.exit(2, f"error: --rows: {arguments.rows}: cannot be read: {error.strerror}\n")
    except ValueError as error:
        parser.exit(2, f"error: --rows: {arguments.rows}: {error}\n")
    rows = [row for row in everything if can_be_posed(row)]
    if arguments.fit:
        for stack in sorted({stack_of(row) for row in rows}):
            marked = [row for row in rows if row.is_fitted and stack_of(row) == stack and not is_held_up(row)]
            print(stack, len(marked), fitted_constants(marked, engine(stack)), flush=True)
        parser.exit()
    stacks = {each: engine(each) for each in sorted({stack_of(row) for row in rows})}
    judged, left_out = (
        compared((row for row in rows if not row.is_fitted), stacks),
        [row for row in everything if row not in rows],
    )
    if arguments.intervals:
        INTERVALS.write_text(intervals_text(judged, [row for row in rows if row.is_fitted]), encoding="utf-8")
        parser.exit()
    if arguments.json:
        print(json.dumps(document(judged, left_out), indent=1))
        parser.exit()
    results = Results(RECORD)
    show(results, judged, left_out)
    results.save(arguments.record)
