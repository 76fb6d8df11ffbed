"""The answer of ``--batch``: what a result holds, its check, and how people see it."""

import csv
import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from dse.plan.batch import Batch, PricedRow, StackRange, priced, stack_ranges
from dse.plan.batch_rows import PlanRow, Refused, read_rows
from dse.plan.check import cost_faults, illegal
from dse.plan.check_costs import plan_costs
from dse.plan.formats import Amount, PlanDocument
from dse.plan.intervals import interval, max_speedup, told_apart
from dse.plan.options import TrainingOptions
from dse.plan.report_notes import software_range
from dse.plan.stack_range import steps_by_stack
from dse.problem import Posed, result_of
from dse.report.units import counted, memory_text, needed_memory_text, share_text, time_text
from dse.report.view import Decisive, Heading, Table, View
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError, Objective, Result, document_of
from dse.run.run import Run
from hardware.inputs import MAX_FAULTS, Document, InputError, fail

METHOD = "batch"

PLANS_FILE, TABLE = "plans.csv", "plans"
_CHECKED = 16
"""Rows whose costs are computed by the checker before a batch is answered; a check computes all."""

_SHOWN = 20
"""Rows in the terminal; the files have all."""

Line = Annotated[int, Field(ge=2)]

BatchPosed = Posed[TrainingOptions, "tuple[PlanRow | Refused, ...]"]


class BatchSolution(Document):
    """``solution`` of ``--batch``.

    Attributes:
        plan: the fastest plan that fits.
        line: its row in the table, the header being line 1.
    """

    plan: PlanDocument
    line: Line


class RefusedRow(Document):
    """A row that is not priced.

    Attributes:
        line: of the table.
        rule: what it breaks.
    """

    line: Line
    rule: str


class PricedRows(Document):
    """Priced rows, an entry of each list for each row.

    Attributes:
        line: of the table.
        step_s: time of a step.
        tokens_per_s: of all accelerators.
        low_s, high_s: between which the step is with a probability of 0.9; null where too little was measured.
        stacks_low_s, stacks_middle_s, stacks_high_s: the fastest, middle and slowest step with the stacks that could be
            meant; null where one is named.
        memory_bytes: of the fullest rank.
        fits: whether that is no more than an accelerator has.
        plan: the plan in its short form, with what was chosen for the row.
    """

    line: list[Line]
    step_s: list[Amount]
    low_s: list[Amount | None]
    high_s: list[Amount | None]
    stacks_low_s: list[Amount | None]
    stacks_middle_s: list[Amount | None]
    stacks_high_s: list[Amount | None]
    tokens_per_s: list[Amount]
    memory_bytes: list[Amount]
    fits: list[bool]
    plan: list[str]


class BatchMetrics(Document):
    """``metrics`` of ``--batch``.

    Attributes:
        plans: the priced rows.
        refused: those that are not.
        stacks: the step of the fastest plan with each software stack that could be meant; empty for templates.
        near_fastest: plans that fit the machine of the fastest one and are slower with a probability below 0.9; null
            where fewer than nine measured runs are as near.
        unpriced: lines of rows that a run which was stopped has left.
        stopped: why the run ended early.
    """

    plans: PricedRows
    refused: list[RefusedRow]
    near_fastest: Annotated[int, Field(ge=0)] | None
    stacks: dict[str, Amount]
    unpriced: list[Line]
    stopped: str | None = None


def posed(options: TrainingOptions) -> BatchPosed:
    """The rows of the table.

    Raises:
        InputError: as :func:`~dse.plan.batch_rows.read_rows`, or every row is refused.
    """
    rows = tuple(read_rows(options))
    problems = {id(row.problem): row.problem for row in rows if isinstance(row, PlanRow)}
    document = {
        "ideal": options.ideal,
        "problems": [problem.document() for problem in problems.values()],
        "rows": [
            [row.line, row.rule]
            if isinstance(row, Refused)
            else [row.line, [*problems].index(id(row.problem)), dict(row.fixed)]
            for row in rows
        ],
    }
    name = f"{counted(len(rows), 'plan')} of {Path(str(options.batch)).name}"
    goal = Objective(name="step_s", value=None, unit="s", sense="min")
    return Posed(options, rows, name, document_of(document), goal)


def answer(command: str, posed: BatchPosed, run: Run) -> Result:
    """The costs of every row, and the fastest that fits.

    Raises:
        InputError: no row can be priced, one fault each.
        FailedCheckError: a fault of this program.
    """
    started = time.perf_counter()
    batch = priced(posed.problem, run.stop, run.progress)
    if not batch.priced and not batch.stopped:
        raise InputError(
            fault
            for row in batch.refused
            for fault in fail(str(posed.options.batch), f"line {row.line}", "", row.rule).faults
        )
    for row in batch.priced[:: -(-len(batch.priced) // _CHECKED) or 1]:
        if faulty := row_faults(row):
            raise FailedCheckError("; ".join(faulty))
    best, columns = _best(batch), _columns(batch)
    if batch.priced:
        run.tables.put(TABLE, pa.table(columns))
    value = None if best is None else best.step_s
    return result_of(
        command,
        posed,
        method=METHOD,
        seed=run.seed,
        value=value,
        bound=None if batch.stopped else value,
        status="interrupted" if batch.stopped == "interrupted" else None,
        solution=None if best is None else {"plan": best.plan.document(), "line": best.line},
        metrics=None if best is None else _metrics(batch, columns),
        infeasibility=_infeasibility(batch) if best is None and not batch.stopped else None,
        evaluations=len(batch.priced),
        seconds=time.perf_counter() - started,
    )


def faults(result: Result, posed: BatchPosed) -> list[str]:
    """Every row is priced again, and its costs are those of the checker."""
    left = result.metrics.get("unpriced", []) if result.solution else []
    batch = priced(posed.problem, skipped=left)
    if not result.solution:
        if result.status != "infeasible":
            return []
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        if _best(batch) is not None:
            return ["status must not be infeasible: a plan fits"]
        return differences("infeasibility", stated, _infeasibility(batch).model_dump())
    best = _best(batch)
    if best is None:
        return ["status must be infeasible: no plan fits"]
    stopped = result.metrics.get("stopped")
    expected = _metrics(batch, _columns(batch)) | ({} if stopped is None else {"stopped": str(stopped)})
    return [
        *differences("solution", result.solution, {"plan": best.plan.document(), "line": best.line}),
        *differences("objective.value", result.objective.value, best.step_s),
        *differences("bound", result.bound, None if stopped else best.step_s),
        *differences("metrics", result.metrics, expected),
        *(["metrics.unpriced must be empty where the run was not stopped"] if left and stopped is None else []),
        *(fault for row in batch.priced for fault in row_faults(row)),
    ]


def row_faults(row: PricedRow) -> list[str]:
    """What the checker finds in a row's plan and costs; that it needs too much memory is none."""
    costs = plan_costs(row.problem, row.plan)
    broken = [*illegal(row.problem, row.plan)]
    if not broken and costs.memory_bytes <= row.problem.usable_bytes:
        broken = cost_faults(row.problem, costs, row.step_s)
    broken += differences("memory_bytes", row.memory_bytes, costs.memory_bytes)
    return [f"line {row.line}: {fault}" for fault in broken]


def view(result: Result, posed: BatchPosed) -> View:
    """The fastest rows, and those that are refused."""
    title = f"Plans of {posed.options.batch}"
    if not result.solution:
        proof = result.infeasibility
        verdict = (
            "The run was stopped before it priced a plan." if proof is None else f"nothing fits: {proof.explanation}"
        )
        return View(title, verdict)
    plans, refused = result.metrics["plans"], result.metrics["refused"]
    count, fitting = len(plans["line"]), sum(plans["fits"])
    step, line = time_text(result.objective.value or 0.0), result.solution["line"]
    verdict = (
        f"{counted(count, 'plan')} priced, {fitting:,} of which fit; the fastest, on line {line}, takes {step} per step"
    )
    if refused:
        verdict += f"; {counted(len(refused), 'row')} refused"
    ranks = sorted(range(count), key=lambda place: (not plans["fits"][place], plans["step_s"][place]))
    fastest = Table(
        ("line", "step", "tokens/s", "memory", "fits", "plan"),
        [
            (
                str(plans["line"][place]),
                time_text(plans["step_s"][place]),
                f"{plans['tokens_per_s'][place]:,.0f}",
                memory_text(plans["memory_bytes"][place]),
                "yes" if plans["fits"][place] else "no",
                plans["plan"][place],
            )
            for place in ranks[:_SHOWN]
        ],
        "plans" if count <= _SHOWN else f"the fastest {_SHOWN} of {count:,} plans",
    )
    tables = [fastest]
    if refused:
        rows = [(str(row["line"]), row["rule"]) for row in refused[:MAX_FAULTS]]
        tables.append(Table(("line", "refused because"), rows, "refused rows", requested=True))
    notes = []
    fastest_of = next(row.problem for row in posed.problem if row.line == line and isinstance(row, PlanRow))
    near, apart = result.metrics["near_fastest"], told_apart(fastest_of)
    if near is not None and near > 1 and apart is not None:
        longer = share_text(apart - 1)
        notes.append(Decisive(f"{near:,} plans are within what the model can tell apart (steps up to {longer} longer)"))
    if ends := software_range(result.metrics["stacks"]):
        notes.append(Decisive(f"line {line} is priced with {fastest_of.stack.name}; {ends}"))
    if len(refused) > MAX_FAULTS:
        notes.append(Decisive(f"{len(refused) - MAX_FAULTS:,} more rows are refused; result.json lists all"))
    if left := result.metrics["unpriced"]:
        notes.append(Decisive(f"stopped ({result.metrics.get('stopped')}): {counted(len(left), 'row')} not priced"))
    files = {PLANS_FILE: _csv(plans)}
    return View(title, verdict, notes, tables, lambda: [Heading("Plans"), *tables], lambda: files)


def side_by_side_row(result: Result) -> tuple[str, ...]:
    """The fastest plan in the table of several chips (:data:`dse.plan.chip_table.HEADERS`)."""
    if not result.solution:
        return "", "", "", "nothing fits", "", ""
    plans = result.metrics["plans"]
    place = plans["line"].index(result.solution["line"])
    tokens, size = f"{plans['tokens_per_s'][place]:,.0f}", memory_text(plans["memory_bytes"][place])
    return time_text(plans["step_s"][place]), tokens, "", size, "", plans["plan"][place]


def _best(batch: Batch) -> PricedRow | None:
    """The fastest row that fits; of several the first."""
    return min((row for row in batch.priced if row.fits), key=lambda row: row.step_s, default=None)


def _near(batch: Batch) -> int | None:
    """Rows that fit and whose step the model cannot tell from the fastest one, on the same machine; with itself.

    None where too little was measured.
    """
    best = _best(batch)
    apart = None if best is None else told_apart(best.problem)
    if best is None or apart is None:
        return None
    return sum(row.fits and row.problem is best.problem and row.step_s <= apart * best.step_s for row in batch.priced)


def _columns(batch: Batch) -> dict[str, list[Any]]:
    problems = {id(row.problem): row.problem for row in batch.priced}
    intervals = {key: interval(problem) for key, problem in problems.items()}
    steps = [intervals[id(row.problem)].around(row.step_s, max_low=max_speedup(row.mfu)) for row in batch.priced]
    ranges = stack_ranges(batch.priced)
    return {
        "line": [row.line for row in batch.priced],
        "step_s": [row.step_s for row in batch.priced],
        "low_s": [None if ends is None else ends[0] for ends in steps],
        "high_s": [None if ends is None else ends[1] for ends in steps],
        **{
            f"stacks_{key}": [None if each is None else getattr(each, key) for each in ranges]
            for key in StackRange._fields
        },
        "tokens_per_s": [row.tokens_per_s for row in batch.priced],
        "memory_bytes": [row.memory_bytes for row in batch.priced],
        "fits": [row.fits for row in batch.priced],
        "plan": [row.plan.text() for row in batch.priced],
    }


def _metrics(batch: Batch, columns: dict[str, list[Any]]) -> dict[str, Any]:
    best = _best(batch)
    metrics: dict[str, Any] = {
        "plans": columns,
        "refused": [{"line": row.line, "rule": row.rule} for row in batch.refused],
        "unpriced": [*batch.unpriced],
        "near_fastest": _near(batch),
        "stacks": {} if best is None else steps_by_stack(best.problem, best.plan),
    }
    return metrics if batch.stopped is None else metrics | {"stopped": batch.stopped}


def _infeasibility(batch: Batch) -> Infeasibility:
    """That no row fits: the one that is the least above the memory of its accelerators."""
    least = min(batch.priced, key=lambda row: row.memory_bytes / row.problem.usable_bytes)
    limit = least.problem.usable_bytes
    need = needed_memory_text(least.memory_bytes)
    whole = needed_memory_text(least.memory_bytes + (least.problem.headroom_bytes or 0))
    return Infeasibility(
        resource="hbm_bytes",
        demand=least.memory_bytes,
        limit=float(limit),
        unit="bytes",
        levers=[f"accelerators with at least {whole} of memory each", "plans that share out more state"],
        explanation=f"the plan of line {least.line} needs the least, {need} of {memory_text(limit)}",
        where={"line": least.line, "plan": least.plan.document()},
    )


def _csv(plans: Mapping[str, list[Any]]) -> str:
    """The priced rows as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plans)
    writer.writerows(zip(*plans.values(), strict=True))
    return text.getvalue()
