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
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.recording import Record, Results, parser_of
from benchmarks.serving_rows import ServingRow, serving_rows
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.serve.engine import Constants, Engine, engine, list_engines
from dse.serve.intervals import FILE
from dse.serve.measured_runs import MeasuredRun, fitted_constants
from dse.serve.memory import weight_bytes
from dse.serve.shape import WEIGHT_BYTES, Formats, Shape
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

START = Constants(
    kernels=1.0, starts=1.0, collectives=1.0, host_s=1e-3, layer_s=1e-5, launch_s=3e-4, request_s=0.02, token_s=2e-6,
    source="before any run is seen",
)  # fmt: skip


@cache
def _model(name: str) -> Transformer:
    return transformer(_SAME_MODEL.get(name, name))


@cache
def _kernels(chip: str) -> KernelModel:
    return kernel_model(chip)


@cache
def _posed(model: str, chip: str, shape: Shape, formats: Formats) -> tuple[StepWork, StepTables]:
    work = StepWork(_model(model), shape, formats, _kernels(chip))
    return work, step_tables(work)


@cache
def run_of(row: ServingRow) -> MeasuredRun:
    """A row as events predict it."""
    posed = _posed(row.model, row.chip, row.shape, row.formats)
    own = row.recipe
    return MeasuredRun(
        row.configuration, *posed, row.load, row.tpot_s, row.ttft_s, None, own.chunk,
        own.receive_steps, own.wait_steps, own.wait_share,
    )  # fmt: skip


def stack_of(row: ServingRow) -> str:
    """The name of the engine's constants: those of runs with a known harness, or of NVIDIA's own."""
    return row.engine if row.origin == "inferencex" else f"{row.engine}-lab"


def filled(row: ServingRow) -> float:
    """Share of memory that weights take."""
    return weight_bytes(_model(row.model), row.shape, row.formats) / _kernels(row.chip).chip.hbm_bytes


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
        own = run_of(row).outcome(engines[stack_of(row)])
        ttft, tpot = own.mean_ttft_s / row.ttft_s - 1, own.mean_tpot_s / row.tpot_s - 1
        answers.append(Compared(row, ttft, tpot, filled(row) > FULL))
    return answers


def can_be_posed(row: ServingRow) -> bool:
    """Whether engine, format, model and chip are known."""
    if stack_of(row) not in list_engines() or row.formats.weights not in WEIGHT_BYTES:
        return False
    try:
        run_of(row)
    except InputError:
        return False
    return True


def is_held_up(row: ServingRow) -> bool:
    """Whether its requests wait for longer than they run: its server had a limit that the row does not state."""
    return row.ttft_s > row.load.output.mean * row.tpot_s


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
            runs, known = map(run_of, marked), [run_of(row) for row in marked if row.origin == "inferencex"]
            own = engine(stack).model_copy(update={"constants": START})
            print(stack, len(marked), fitted_constants([*runs], known, own, rounds=4), flush=True)
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
