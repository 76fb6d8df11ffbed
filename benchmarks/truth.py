"""Predicted against measured training steps and memory: ``benchmarks/data/training/runs.csv``.

Targets, on rows that no constant was fitted to: Selene mean ≤ 3 % and worst ≤ 6 %; quality A mean ≤ 6 %, worst ≤ 25 %;
order of two runs on one chip right in ≥ 95 % of pairs that differ by more than 5 %; memory mean ≤ 3 %, and never "does
not fit" for a run that ran. The baseline in the same table is a fixed MFU: the mean of the rows that the stack was
fitted to (40 % where there is none).

Each stack has at most two fitted rates, and as many rows that they are fitted to:
``benchmarks/data/training/fitted_rows.yaml`` says which, and is written before a fit. Where these rows publish what the
allocator has reserved, its ratio to activations and working memory is fitted too. ``--fit`` fits them again and prints
them; the specs in dse/plan/stacks hold them.

``--commands DIR`` prints the line of ``dse predict`` that poses each row instead, and writes to DIR the models
that have no name of their own.

``--rows FILE`` takes any table of this form instead, and prints its errors by class
(:mod:`benchmarks.row_classes`); with ``--json`` as a document.

``--gate`` fails where errors exceed those of benchmarks/results/truth_errors.json and CHANGELOG.md does not say why
(:mod:`benchmarks.truth_gate`); then ``--record`` writes nothing either.

``--calculon PATH`` is a checkout of Calculon, which then predicts the plans that it can express next to ours
(:mod:`benchmarks.calculon`).
"""

import json
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.calculon import can_express, is_checkout
from benchmarks.calculon import predicted as calculon_predicted
from benchmarks.recording import Cell, Record, Results, parser_of
from benchmarks.row_classes import document, measured_against, ordered, text
from benchmarks.training_predictions import Row, fitted_rates, fitted_reserved, table
from benchmarks.training_rows import command, fits, runs
from benchmarks.truth_gate import CHANGELOG, COLUMNS, classes, error_rows, faults
from docs.making.figures import results as results_of
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer

LATER = ("selene-gpt3-175B", "selene-megatron-1T")
"""Rows that came in after everything else had been decided."""

QUALITIES = {
    "A": "plan and measurement fully stated",
    "B": "one thing left open",
    "C": "several left open",
}

FAR, FARTHER, LONG = 0.10, 0.25, 128 * 1024
"""Errors that the page explains, errors that the README counts; tokens of a long sequence."""

REASONS = {
    "torchtitan-8b-8-fsdp": "no `torch.compile`, which the stack has",
    "simumax-b200-llama3_70b_l12-tp8": (
        "nothing; SimuMax, which measured it, is 9.0 % too fast with rates for each size of product"
    ),
}
"""What the source of a row says that the prediction does not have, by the beginning of its name."""

NUMBERS = ("None is", "One is", "Two are", "Three are", "Four are", "Five are", "Six are", "Seven are", "Eight are")

PUBLISHED_FLOPS = 1028e12 / 3955
"""Of a token of DeepSeek-V3: 1,028 TFLOP/s at 3,955 tokens/s (Megatron-Bridge's performance summary)."""

ERRORS = ("number", "mean error", "worst", "fixed MFU: mean", "worst ")
RECORD = Record(
    "truth",
    (
        "quality_a.mean",
        "quality_a.worst",
        "quality_a.rows",
        "without_simumax",
        "deepseek_v3",
        "long_sequence",
        "later_rows",
        "order",
        "timed",
        "far",
        "memory.mean",
        "memory.worst",
        "memory.rows",
        "memory.without_reserved",
        "memory.megatron.mean",
        "memory.megatron.worst",
    ),
    {
        "readme": ("runs", *ERRORS),
        "summary": ("rows", *ERRORS),
        "groups": ("stack or chip", *ERRORS),
        "fails": ("row", "error", "what the source states and the prediction lacks"),
        "targets": ("claim", "aimed at", "reached", "command"),
        "memory": ("row", "measured GiB", "predicted GiB", "error %", "published as"),
        "rows": ("run", "quality", "stack", "measured s", "predicted s", "error %", "fixed MFU %", "note"),
    },
)
ERRORS_BY_ROW = Record(
    "truth_errors", (), {"classes": ("class", "rows", "mean %", "median %", "worst %", "bias %"), "rows": COLUMNS}
)
CALCULON = Record(
    "calculon",
    ("counts", "too_fast"),
    {
        "main": ("rows", "number", "ours: mean error", "worst", "Calculon: mean error", "worst ", "Calculon closer on"),
    },
)


def mean_and_worst(errors: Iterable[float]) -> tuple[str, str]:
    """Of absolute errors."""
    sizes = [abs(error) for error in errors]
    return percent(sum(sizes) / len(sizes)), percent(max(sizes))


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """A difference in percent, without the sign of percent."""
    return f"{100 * share:+.1f}".replace("-", "−")


def show_calculon(results: Results, rows: Sequence[Row], checkout: Path) -> None:
    """Calculon's predictions of the same plans, next to ours, and both on the same rows by quality."""
    timed = [row for row in rows if row.run.step_s is not None]
    known = [row for row in timed if can_express(row.run.problem, row.best.plan)]
    compared: list[tuple[Row, float]] = []
    for row in known:
        said = calculon_predicted(checkout, row.run.problem, row.best.plan)
        error = said.refusal
        if said.step_s is not None:
            compared.append((row, said.step_s / (row.run.step_s or math.nan) - 1))
            error = signed(compared[-1][1])
        fitted = "fitted" if row.fitted else ""
        print(f"{row.run.name} ({row.run.quality}): ours {signed(row.error)} %, Calculon {error} {fitted}")
    results.figure("counts", f"{len(known)} of {len(timed)}")
    groups = {f"quality {each}": [pair for pair in compared if pair[0].run.quality == each] for each in "ABC"}
    for name, pairs in {**groups, "all": compared}.items():
        free = [(row.error, error) for row, error in pairs if not row.fitted]
        if free:
            ours, theirs = (mean_and_worst(errors) for errors in zip(*free, strict=True))
            closer = sum(abs(error) < abs(own) for own, error in free)
            results.row("main", name, len(free), *ours, *theirs, closer)
    too_fast = sum(error < 0 for _, error in compared)
    results.figure("too_fast", f"{too_fast} of {len(compared)}")


def show(results: Results, rows: Sequence[Row]) -> None:
    """The tables of step times."""
    timed = [row for row in rows if row.run.step_s is not None]
    for row in timed:
        seconds = f"{row.run.step_s:.4g}", f"{row.best.step_s:.4g}"
        errors = signed(row.error), signed(row.plain_error)
        results.row("rows", row.run.name, row.run.quality, row.run.software, *seconds, *errors, row.marks)
    free = [row for row in timed if not row.fitted]
    by_quality = {each: [row for row in free if row.run.quality == each] for each in "ABC"}
    best = by_quality["A"]

    def without(*names: str) -> list[Row]:
        return [row for row in best if not row.run.name.startswith(names)]

    def add(table: str, name: str, group: Sequence[Row]) -> tuple[str, str]:
        ours = mean_and_worst(row.error for row in group)
        results.row(table, name, len(group), *ours, *mean_and_worst(row.plain_error for row in group))
        return ours

    selene = add(
        "summary", "Selene (A100, Megatron-LM 2022)", [row for row in free if row.run.name.startswith("selene")]
    )
    quality_a = {each: add("summary", f"quality {each}: {QUALITIES[each]}", by_quality[each]) for each in "ABC"}["A"]
    # SimuMax's rows ran on the machine that its kernels and collectives were timed on.
    without_simumax = add("summary", "quality A without SimuMax's", without("simumax"))
    add("summary", "quality A without 175B and 1T", without(*LATER))
    for each in sorted({row.run.software for row in free}):
        group = [row for row in free if row.run.software == each]
        add("groups", each, group)
    for each in sorted({row.run.chip for row in free}):
        add("groups", each, [row for row in free if row.run.chip == each])
    for each in "ABC":
        add("readme", f"{QUALITIES[each]} (quality {each})", by_quality[each])
    for row in sorted(best, key=lambda row: row.error):
        if abs(row.error) > FAR:
            reason = next((why for name, why in REASONS.items() if row.run.name.startswith(name)), "nothing")
            results.row("fails", row.run.name, f"{signed(row.error)} %", reason)
    right, total = ordered([(row.run.chip, row.run, row.error) for row in best])
    results.figure("quality_a.mean", quality_a[0])
    results.figure("quality_a.worst", quality_a[1])
    results.figure("quality_a.rows", len(best))
    results.figure("without_simumax", without_simumax[0])
    later = [signed(row.error) for row in timed if row.run.name.startswith(LATER)]
    results.figure("later_rows", f"{', '.join(later[:-1])} and {later[-1]} %")
    long = min(row.error for row in free if row.run.problem.sequence >= LONG)
    results.figure("long_sequence", f"{signed(long)} %")
    results.figure("order", f"{right} of {total}")
    results.figure("timed", len(timed))
    results.figure("far", NUMBERS[sum(row.error < -FARTHER for row in free)])
    model = transformer("deepseek-v3")
    counted, without_layer = causal_flops(model), causal_flops(model.model_copy(update={"prediction_layers": 0}))
    published = f"where {PUBLISHED_FLOPS / 1e9:.1f} are published ({without_layer / 1e9:.1f} without it)"
    results.figure("deepseek_v3", f"{counted / 1e9:.1f} GFLOP, {published}")
    show_targets(results, timed, selene, quality_a, f"{right} of {total}", show_memory(results, rows))


def show_targets(
    results: Results,
    timed: Sequence[Row],
    selene: tuple[str, str],
    quality_a: tuple[str, str],
    order: str,
    memory: str,
) -> None:
    """Each target beside what was measured."""
    misfits = ", ".join(row.run.name for row in timed if not row.fits) or "none"
    rates = results_of("plans")["figures"]
    for target in (
        ("Selene, mean and worst", "3 %, 6 %", ", ".join(selene), "`benchmarks.truth`"),
        ("quality A, mean and worst", "6 %, 25 %", ", ".join(quality_a), "`benchmarks.truth`"),
        ("order of two runs on one chip", "95 % of pairs", order, "`benchmarks.truth`"),
        (
            "memory, mean; runs that ran but are predicted not to fit",
            "3 %; none",
            f"{memory}; {misfits}",
            "`benchmarks.truth`",
        ),
        ("plans priced per second, in arrays", "10,000", rates["rates"], "`benchmarks.plans`"),
        ("proof for 530 billion parameters on 5,120", "10 s", rates["largest_s"], "`benchmarks.plans`"),
    ):
        results.row("targets", *target)


def causal_flops(model: Transformer) -> float:
    """FLOPs of a token of DeepSeek-V3 in sequences of 4,096, as its published rate counts them: half of the scores."""
    layers = model.layers + model.prediction_layers
    masked = 3 * 2 * 128 * (192 + 128) * layers * 4096 / 2
    return model.flops_per_sample(4096) / 4096 - masked


def show_memory(results: Results, rows: Sequence[Row]) -> str:
    """Of the fullest rank, next to what is published of it; the mean error."""
    known = [row for row in rows if row.run.memory_gib is not None]
    for row in known:
        sizes = f"{row.run.memory_gib:.1f}", f"{row.memory_gib:.1f}", signed(row.memory_error)
        results.row("memory", row.run.name, *sizes, row.run.memory_kind + ", fitted" * row.memory_is_fitted)
    free = [row for row in known if not row.memory_is_fitted]
    mean, worst = mean_and_worst(row.memory_error for row in free)
    results.figure("memory.mean", mean)
    results.figure("memory.worst", worst)
    results.figure("memory.rows", len(free))
    megatron = [row for row in known if not row.run.software.startswith("torchtitan")]
    reserved = [row for row in free if row.run.memory_kind == "reserved"]
    too_low = [1 - row.allocated_gib / (row.run.memory_gib or math.nan) for row in reserved]
    reach = f"{100 * min(too_low):.0f} to {100 * max(too_low):.0f} %"
    results.figure("memory.without_reserved", f"{reach} ({percent(sum(too_low) / len(too_low))} on average)")
    of_megatron = mean_and_worst(row.memory_error for row in megatron)
    results.figure("memory.megatron.mean", of_megatron[0])
    results.figure("memory.megatron.worst", of_megatron[1])
    return mean


def show_errors(results: Results, lines: Sequence[Sequence[Cell]]) -> None:
    """Errors by class and by row, as ``--gate`` compares with them."""
    for name, errors in classes(lines).items():
        sizes = [abs(error) for error in errors.values()]
        averages = statistics.fmean(sizes), statistics.median(sizes), max(sizes), statistics.fmean(errors.values())
        results.row("classes", name, len(sizes), *(round(each, 2) for each in averages))
    for line in lines:
        results.row("rows", *line)


def worse(lines: Sequence[Sequence[Cell]]) -> list[str]:
    """What these errors by row have worse than the recorded ones, and the changelog does not say."""
    return [*faults(ERRORS_BY_ROW.rows("rows"), lines, CHANGELOG.read_text(encoding="utf-8"))]


def refit() -> None:
    """The rates of each stack as a fit finds them now."""
    for name, fit in sorted(fits(runs()).items()):
        rates, rows = fitted_rates(fit), fit.runs
        spec = {each: getattr(rows[0].problem.stack, each).value for each in rates}
        ratio, known = fitted_reserved(rows), rows[0].problem.stack.reserved
        if ratio is not None:
            rates["reserved"], spec["reserved"] = ratio, math.nan if known is None else known.value
        print(f"{name}: refit {rates}, spec {spec}; rows {', '.join(run.name for run in rows)}")


if __name__ == "__main__":
    parser = parser_of(__doc__)
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--fit", action="store_true", help="fit the rates of the stacks again")
    asked.add_argument("--gate", action="store_true", help="fail where errors have grown and the changelog is silent")
    asked.add_argument("--commands", type=Path, metavar="DIR", help="print the command that poses each row")
    asked.add_argument("--calculon", type=Path, metavar="PATH", help="a checkout of Calculon to compare with")
    asked.add_argument("--rows", type=Path, metavar="FILE", help="errors of another table of measured runs")
    parser.add_argument("--json", action="store_true", help="with --rows: print a document")
    begun, arguments = time.process_time(), parser.parse_args()
    if arguments.json and arguments.rows is None:
        parser.exit(2, "error: --json: must be given with --rows\n")
    if arguments.rows is not None:
        try:
            found = document(*measured_against(arguments.rows))
        except (OSError, ValueError) as error:
            parser.exit(2, f"error: --rows: {error}\n")
        print(json.dumps(found, indent=1) if arguments.json else text(found))
        parser.exit()
    if arguments.gate:
        faulty = worse(error_rows(table()))
        parser.exit(1 if faulty else 0, "".join(f"error: {each}\n" for each in faulty) or None)
    if arguments.calculon is not None and not is_checkout(arguments.calculon):
        parser.exit(2, f"error: --calculon: {arguments.calculon}: no checkout of Calculon: it has no bin/calculon\n")
    if arguments.commands is not None:
        try:
            print("\n".join(f"# {run.name}\n{command(run, arguments.commands)}" for run in runs()))
        except OSError as error:
            parser.exit(2, f"error: --commands: {error.filename}: cannot be written to: {error.strerror}\n")
    elif arguments.fit:
        refit()
    elif arguments.calculon is not None:
        calculon = Results(CALCULON)
        show_calculon(calculon, table(), arguments.calculon)
        calculon.save(arguments.record)
    else:
        measured, by_row, rows = Results(RECORD), Results(ERRORS_BY_ROW), table()
        lines = error_rows(rows)
        show(measured, rows)
        show_errors(by_row, lines)
        if arguments.record and (faulty := worse(lines)):
            parser.exit(1, "".join(f"error: {each}\n" for each in faulty))
        measured.save(arguments.record)
        by_row.save(arguments.record)
    print(f"{time.process_time() - begun:.1f} s CPU")
