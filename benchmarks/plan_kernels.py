"""Dense products of training plans by a stack's share of the peak, and by fitted kernel times of their shapes.

Of the stacks with runs on chips whose kernels were timed, one constant is fitted to the marked rows of each: the share
``matrix``, or by how much longer training takes than the fitted kernels (:mod:`hardware.kernel_times`; without their
casts, which the stack has itself). The first rows of the table are stacks left out whole: the constant is the geometric
mean of the other stacks'. Traffic of vector work runs at 0.8 of the peak for all, so that nothing else differs.

``--rows FILE`` adds the rows of another table of that form with names of their own.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from benchmarks.training_predictions import predicted
from benchmarks.training_rows import Run, fitting_runs, rows_of, runs
from dse.plan.evaluate import step_seconds
from dse.plan.kernels import HALF_BYTES, ChipKernels
from dse.plan.plan_arrays import Floats, PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from hardware.kernel_times.fitted import kernel_times
from hardware.kernel_times.products import DENSE
from hardware.precisions import ELEMENT_BYTES

MEMORY = 0.8
"""Share of the rate of memory that the stack ``generic`` assumes."""

RECORD = Record(
    "plan_kernels",
    ("share.mean", "share.worst", "shape.mean", "shape.worst", "rows"),
    {
        "main": (
            "stack",
            "rows",
            "by share: constant",
            "left out, mean error",
            "by shape: constant",
            "left out, mean error ",
        )
    },
)
_WORDS = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "mxfp8": "fp8"}
_ROUNDS = 30

Priced = Callable[[float], float]
"""Seconds of a run's step by the constant of its stack."""


class ShapedKernels(ChipKernels):
    """Dense products take ``longer`` than the fitted kernels of their shapes; grouped ones are as ever."""

    def __init__(self, problem: PlanProblem, precision: str, longer: float) -> None:
        super().__init__(problem, precision)
        self._chip, self._precision, self._longer = problem.system.chip, precision, longer
        self._times = kernel_times(self._chip.kernel_times, self._chip)

    def product_s(
        self, m: Floats, n: Floats | float, k: Floats | float, low: bool, grouped: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """As :class:`ChipKernels`, by shape."""
        if grouped:
            return super().product_s(m, n, k, low, grouped)
        word = self._precision if low else "bf16"
        known = [each for each in self._times.kernels("dense") if each.variant.endswith(f" {_WORDS[word]}")]
        fit = min(known, key=lambda each: (each.error or 1.0, each.variant))
        rates = self._times.rates(fit.precision)._replace(flops_per_s=self._chip.peak_flops[word])
        constants = {**fit.constants, "cast_passes": 0.0}

        def seconds(rows: Floats | float, columns: Floats | float, depth: Floats | float) -> Floats:
            sides = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (rows, columns, depth)))
            shapes = {**dict(zip("mnk", sides, strict=True)), "element_bytes": np.full_like(sides[0], _bytes(word))}
            made: Floats = DENSE.seconds(shapes, rates, constants)
            return self._longer * made

        return seconds(m, n, k), seconds(m, k, n), seconds(n, k, m)


def _bytes(precision: str) -> float:
    return min(ELEMENT_BYTES[precision], HALF_BYTES)


def by_share(run: Run, plan: TrainingPlan) -> Priced:
    """Of a share of the peak."""
    plans, problem = PlanArrays.of([plan]), _plain(run.problem)

    def seconds(share: float) -> float:
        rate = problem.stack.matrix.model_copy(update={"value": share})
        own = replace(problem, stack=problem.stack.model_copy(update={"matrix": rate}))
        return float(step_seconds(own, plans, ChipKernels(own, plan.precision))[0, 0])

    return seconds


def by_shape(run: Run, plan: TrainingPlan) -> Priced:
    """Of how much longer products take than fitted kernels."""
    plans, problem = PlanArrays.of([plan]), _plain(run.problem)
    return lambda longer: float(step_seconds(problem, plans, ShapedKernels(problem, plan.precision, longer))[0, 0])


def _plain(problem: PlanProblem) -> PlanProblem:
    memory = problem.stack.memory.model_copy(update={"value": MEMORY})
    return replace(problem, stack=problem.stack.model_copy(update={"memory": memory}))


def fitted(marked: Sequence[tuple[Run, Priced]], low: float, high: float) -> float:
    """The constant with which the steps of the marked rows are right in the geometric mean."""
    rises = marked[0][1](high) > marked[0][1](low)
    for _ in range(_ROUNDS):
        middle = math.sqrt(low * high)
        off = sum(math.log(seconds(middle) / (run.step_s or math.nan)) for run, seconds in marked)
        low, high = (middle, high) if (off < 0) is rises else (low, middle)
    return math.sqrt(low * high)


def main() -> None:
    """The table, and both means over the rows of stacks left out."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="another table of measured runs")
    arguments, results = parser.parse_args(), Results(RECORD)
    every = {run.name: run for run in runs()}
    marked = {name: {run.name for run in rows} for name, rows in fitting_runs(list(every.values())).items()}
    if arguments.rows is not None:
        every = {run.name: run for run in rows_of(arguments.rows) if isinstance(run, Run)} | every
    known = {
        name: [run for run in every.values() if run.software == name and run.step_s and _is_timed(run)]
        for name, rows in marked.items()
    }
    known = {name: group for name, group in known.items() if marked[name] <= {run.name for run in group}}
    plans = {run.name: predicted(run)[0].plan for group in known.values() for run in group}
    kinds = {"share": (by_share, 0.05, 1.0), "shape": (by_shape, 0.3, 10.0)}
    constants: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, list[float]]] = {}
    for kind, (of, low, high) in kinds.items():
        priced = {name: [(run, of(run, plans[run.name])) for run in group] for name, group in known.items()}
        constants[kind] = {
            name: fitted([each for each in group if each[0].name in marked[name]], low, high)
            for name, group in priced.items()
        }
        errors[kind] = {}
        for name, steps in priced.items():
            others = [value for other, value in constants[kind].items() if other != name]
            mean = statistics.geometric_mean(others)
            errors[kind][name] = [seconds(mean) / (run.step_s or math.nan) - 1 for run, seconds in steps]
    for name, group in known.items():
        cells = [
            cell
            for kind in kinds
            for cell in (f"{constants[kind][name]:.3f}", f"{100 * _mean(errors[kind][name]):.1f} %")
        ]
        results.row("main", name, len(group), *cells)
    for kind in kinds:
        all_errors = [error for group in errors[kind].values() for error in group]
        results.figure(f"{kind}.mean", f"{100 * _mean(all_errors):.1f} %")
        results.figure(f"{kind}.worst", f"{100 * max(map(abs, all_errors)):.1f} %")
    results.figure("rows", sum(map(len, known.values())))
    results.save(arguments.record)


def _is_timed(run: Run) -> bool:
    """Whether products in its formats were timed on its chip or a relative."""
    return bool(run.problem.system.chip.kernel_times) and run.problem.precision in _WORDS


def _mean(errors: Sequence[float]) -> float:
    return statistics.fmean(map(abs, errors))


if __name__ == "__main__":
    main()
