"""The published runs next to their predictions, and the rates of the stacks as a fit finds them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.training_rows import Fit, Run, fitting_runs, runs, with_rates
from dse.plan.check_costs import plan_costs
from dse.plan.search.enumeration import Priced, enumerate_plans
from hardware.inputs import fail
from hardware.network import Network
from hardware.units import GIB

PLAIN_MFU = 0.4
"""Of stacks that were fitted to no row."""

LOWEST, HIGHEST = 0.3, 1.0
"""Of a fitted rate of kernels."""

LOWEST_LINK = 0.1
"""Of that of links."""


@dataclass(frozen=True)
class Row:
    """A run next to its prediction; ``fitted`` where a constant was fitted to it."""

    run: Run
    best: Priced
    fits: bool
    fitted: bool
    plain_s: float

    @property
    def error(self) -> float:
        """Predicted step over the measured one, less 1."""
        assert self.run.step_s is not None
        return self.best.step_s / self.run.step_s - 1

    @property
    def plain_error(self) -> float:
        """The same of the fixed MFU."""
        assert self.run.step_s is not None
        return self.plain_s / self.run.step_s - 1

    @property
    def marks(self) -> str:
        """Whether it was fitted to, which shares are of kernels that were timed, and whether it does not fit."""
        words = ["fitted"] if self.fitted else []
        words += [
            f"{key} timed on {rate.timed_on}" for key, rate in self.run.problem.stack.rates.items() if rate.timed_on
        ]
        words += [f"collectives timed on {name}" for name in self.timed_networks]
        return ", ".join(words if self.fits else [*words, f"does not fit: {self.best.memory_bytes / GIB:.1f} GiB"])

    @property
    def timed_networks(self) -> list[str]:
        """The accelerators that collectives of its network were timed on."""
        level: Network | None = self.run.problem.network if self.run.problem.devices > 1 else None
        names = []
        while level is not None:
            if level.timed and level.timed_on:
                names.append(level.timed_on)
            level = level.inner
        return names

    @cached_property
    def memory_gib(self) -> float:
        """Of the fullest rank: what the allocator reserves, where that is published, and else of tensors.

        Without buffers of collectives, which neither PyTorch nor the authors count.
        """
        costs = plan_costs(self.run.problem, self.best.plan)
        beyond = 0.0 if self.run.memory_kind == "reserved" else costs.memory.get("reserved", 0.0)
        return (costs.memory_bytes - costs.memory["communication"] - beyond) / GIB

    @property
    def allocated_gib(self) -> float:
        """The same of tensors alone."""
        memory = plan_costs(self.run.problem, self.best.plan).memory
        return sum(size for part, size in memory.items() if part not in ("communication", "reserved")) / GIB

    @property
    def memory_is_fitted(self) -> bool:
        """Whether what its stack's allocator reserves was fitted to it."""
        known = self.run.problem.stack.reserved
        return known is not None and self.run.name in known.fitted

    @property
    def memory_error(self) -> float:
        """Of that."""
        assert self.run.memory_gib is not None
        return self.memory_gib / self.run.memory_gib - 1


def predicted(run: Run, **rates: float) -> tuple[Priced, bool]:
    """The best plan that has what the row fixes, and whether any fits; the least one where none does."""
    enumerated = enumerate_plans(with_rates(run.problem, **rates) if rates else run.problem)
    if enumerated.least is None:
        raise fail(run.name, "", "", "has no plan with these widths that keeps the rules of dse plan")
    return (enumerated.best, True) if enumerated.best is not None else (enumerated.least, False)


def ideal_s(run: Run) -> float:
    """Seconds of a step at 100 % MFU."""
    problem = run.problem
    peak = problem.system.chip.peak_flops[dict(problem.fixed)["precision"]] * problem.devices
    return problem.model.flops_per_sample(problem.sequence) * problem.global_batch / peak


def fitted_rates(fit: Fit) -> dict[str, float]:
    """The rates with the least squared logarithmic error on its rows: by a grid that is made finer around its best."""
    rows, names = fit.runs, fit.rates
    lowest = {name: LOWEST_LINK if name == "link" else LOWEST for name in names}
    centre = {name: (low + HIGHEST) / 2 for name, low in lowest.items()}
    reach = {name: (HIGHEST - low) / 2 for name, low in lowest.items()}
    for _ in range(4):
        axes = [
            sorted({min(HIGHEST, max(lowest[name], centre[name] + reach[name] * step / 6)) for step in range(-6, 7)})
            for name in names
        ]
        points = [(x,) for x in axes[0]] if len(axes) == 1 else [(x, y) for x in axes[0] for y in axes[1]]
        best = _least_misfit(rows, names, points)
        centre = dict(zip(names, best, strict=True))
        reach = {name: each / 5 for name, each in reach.items()}
    return {name: round(rate, 3) for name, rate in centre.items()}


def _least_misfit(rows: Sequence[Run], names: Sequence[str], points: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The first of the points with the least misfit. The one in the middle was the best of a coarser grid: most others
    are above it, or above the best so far, before the errors of all rows are added up.
    """
    enough = _misfit(rows, dict(zip(names, points[len(points) // 2], strict=True)))
    misfits = []
    for point in points:
        misfits.append(_misfit(rows, dict(zip(names, point, strict=True)), enough))
        enough = min(enough, misfits[-1])
    return points[misfits.index(enough)]


def _misfit(rows: Sequence[Run], rates: dict[str, float], enough: float = math.inf) -> float:
    """The squared logarithmic errors of the rows in all; only those of the first ones where they are above
    ``enough``.
    """
    total = 0.0
    for run in rows:
        total += math.log(predicted(run, **rates)[0].step_s / (run.step_s or math.nan)) ** 2
        if total > enough:
            break
    return total


def table() -> list[Row]:
    """Every row."""
    every = runs()
    chosen = fitting_runs(every)
    result = []
    for run in every:
        rows = chosen.get(run.software, [])
        mfu = sum(ideal_s(each) / (each.step_s or math.nan) for each in rows) / len(rows) if rows else PLAIN_MFU
        best, fits = predicted(run)
        result.append(Row(run, best, fits, run in rows, ideal_s(run) / mfu))
    return result


def fitted_reserved(rows: Sequence[Run]) -> float | None:
    """Times activations and working memory that, with the state, are nearest to what ``rows`` publish as reserved.

    By the least squared logarithmic error, in thousandths from 1 to 4. None where none publishes it.
    """
    ratios, misfits = np.arange(1000, 4001) / 1000, []
    for run in rows:
        if run.memory_gib is not None and run.memory_kind == "reserved":
            memory = plan_costs(run.problem, predicted(run)[0].plan).memory
            state = sum(memory[part] for part in ("weights", "gradients", "optimizer"))
            moving = memory["activations"] + memory["working"]
            misfits.append(np.log((state + ratios * moving) / (run.memory_gib * GIB)) ** 2)
    return float(ratios[np.argmin(sum(misfits))]) if misfits else None
