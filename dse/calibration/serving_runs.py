"""Tables of measured serving runs: a line is a call of ``dse serve`` whose configuration ran, with what clients saw."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dse.calibration.rows import count_in, csv_rows, number_in
from dse.serve.checkpoints import formats_of
from dse.serve.measured_runs import MeasuredRun
from dse.serve.memory import end_bytes, weight_bytes
from dse.serve.options import ServeOptions, posed_problem
from dse.serve.problem import ServeProblem
from dse.serve.rules import broken
from dse.serve.serving_plan import ALIASES, KEYS, PartialPlan, ServingPlan, read_plan
from dse.serve.step_tables import StepTables, step_tables
from dse.serve.step_work import StepWork
from hardware.inputs import Fault, InputError, fail

COLUMNS = ("model", "chip", "prompt", "output", "concurrency", "tpot_s")
"""That a table must have; ``ttft_s`` and the keys of a configuration may be there."""

_MOST_CLIENTS = 2**17

_LIMITS = ("batch", "chunk")
"""Keys of a configuration that need not be those that ``dse serve`` would choose among."""


def read_runs(path: str | Path, engine: str) -> list[MeasuredRun]:
    """The runs of a CSV file with :data:`COLUMNS`.

    Keys of a configuration that have no column, or an empty field, have their usual value: one chip, weights as the
    published checkpoint has them, keys and values in bf16.

    Args:
        path: of the table.
        engine: that ran, by name or path.

    Raises:
        InputError: the file cannot be read, or what a line says cannot have run, one fault each.
    """
    posed: dict[tuple[Any, ...], StepTables] = {}
    runs, faults = [], []
    for line, row in csv_rows(path, COLUMNS):
        try:
            runs.append(_run(path, line, row, engine, posed))
        except InputError as error:
            faults += [_at(path, line, fault) for fault in error.faults]
    if faults:
        raise InputError(faults)
    return runs


def _at(path: str | Path, line: int, fault: Fault) -> Fault:
    """A fault of an option or a key as one of the line that gave it."""
    if fault.file == str(path):
        return fault
    is_option = fault.file.startswith("--") or fault.file in ("", "dse serve")
    key = (fault.key or fault.file).removeprefix("--") if is_option else f"{fault.file}: {fault.key}"
    renamed = {"MODEL": "model", "on": "chip"}.get(key, key)
    return Fault(str(path), f"line {line}.{renamed}", fault.value, fault.rule, fault.suggestion)


def _run(
    path: str | Path, line: int, row: Mapping[str, str], engine: str, posed: dict[tuple[Any, ...], StepTables]
) -> MeasuredRun:
    clients, tpot_s = count_in(path, line, row, "concurrency"), number_in(path, line, row, "tpot_s")
    ttft_s = number_in(path, line, row, "ttft_s") if row.get("ttft_s") else None
    if clients > _MOST_CLIENTS:
        raise fail(path, f"line {line}.concurrency", clients, f"must be at most {_MOST_CLIENTS:,}")
    given = read_plan(_plan_text(row))
    problem, plan = _posed(row, clients, engine, given)
    if problem.load.output.low < 2:
        raise fail(path, f"line {line}.output", row["output"], "must be at least 2: one token has none after it")
    formats = formats_of(problem.model, problem.precisions[0], plan.kv_precision)
    work = StepWork(problem.model, plan.shape, formats, problem.kernels)
    least_s = _least_s(work)
    if tpot_s < least_s:
        rule = (
            f"must be at least {least_s:.4g}, in which {problem.system.chip.name} reads the weights at its peak rate: "
            "another chip ran it, or steps wrote several tokens"
        )
        raise fail(path, f"line {line}.tpot_s", row["tpot_s"], rule)
    configuration = (problem.model.name, problem.system.chip.name, plan.shape, formats)
    if configuration not in posed:
        posed[configuration] = step_tables(work)
    return MeasuredRun(
        " ".join(map(str, configuration)), work, posed[configuration], problem.load, tpot_s, ttft_s,
        given.get("batch"), given.get("chunk"),
    )  # fmt: skip


def _plan_text(row: Mapping[str, str]) -> str:
    """What a row says of the configuration, as ``--plan`` takes it; the engines' own words are columns too."""
    known = {name: ALIASES.get(name.lower().replace("-", "_"), name) for name in row if isinstance(name, str)}
    return ",".join(f"{name}={row[name]}" for name, key in known.items() if key in KEYS and row[name])


def _posed(row: Mapping[str, str], clients: int, engine: str, given: PartialPlan) -> tuple[ServeProblem, ServingPlan]:
    """What ``dse serve`` makes of a row."""
    tensor, data = given.get("tensor", 1), given.get("attention_data", 1)
    expert, pipeline = given.get("expert", 1), given.get("pipeline", 1)
    fixed = {key: value for key, value in given.items() if key not in _LIMITS}
    options = ServeOptions(
        row["model"] or "", on=row["chip"] or "", accelerators=tensor * data * pipeline, prompt=row["prompt"] or "",
        output=row["output"] or "", concurrency=clients, engine=engine,
        plan=",".join(f"{key}={value}" for key, value in fixed.items()),
    )  # fmt: skip
    problem = posed_problem(options).problem
    usual = {
        "mode": "aggregated", "engine": problem.engines[0].name, "tensor": tensor, "pipeline": pipeline,
        "attention_data": data, "expert": expert, "expert_tensor": max(1, tensor * data // expert), "replicas": 1,
        "batch": clients, "chunk": clients, "precision": problem.precisions[0], "kv_precision": "bf16",
    }  # fmt: skip
    plan = ServingPlan(**usual | fixed)
    if faults := [
        Fault("--plan", key, f"{getattr(plan, key)}", rule, None if hint is None else f"{hint}")
        for key, rule, hint in broken(problem, plan)
        if key not in _LIMITS
    ]:
        raise InputError(faults)
    return problem, plan


def _least_s(work: StepWork) -> float:
    """Seconds in which all stages read the weights of a token, of experts those that it is sent to."""
    model = work.model
    if model.experts is not None:
        few = model.experts.model_copy(update={"routed": model.experts.active})
        model = model.model_copy(update={"experts": few})
    held = weight_bytes(model, work.shape, work.formats) - end_bytes(model, work.shape)
    return work.shape.pipeline * held / work.kernels.chip.hbm_bytes_per_s
