"""Predicted against measured training steps and memory: ``benchmarks/data/training/runs.csv``.

Targets, on rows that no constant was fitted to: Selene mean ≤ 3 % and worst ≤ 6 %; quality A mean ≤ 8 %, worst ≤ 20 %;
order of two runs on one chip right in ≥ 90 % of pairs that differ by more than 5 %; memory mean ≤ 5 %, and never "does
not fit" for a run that ran. The baseline in the same table is a fixed MFU: the mean of the rows that the stack was
fitted to (40 % where there is none).

Each stack has at most two fitted rates: ``matrix`` where it is fitted to one row, ``matrix`` and ``memory`` where it is
fitted to two (:func:`benchmarks.training_rows.fitting_runs` says to which, by a rule that looks at no error). Where
these rows publish what the allocator has reserved, its ratio to activations and working memory is fitted too. ``--fit``
fits them again and prints them; the specs in dse/plan/stacks hold them.

``--commands DIR`` prints the line of ``dse predict`` that poses each row instead, and writes to DIR the models
that have no name of their own.

``--calculon PATH`` is a checkout of Calculon, which then predicts the plans that it can express beside ours
(:mod:`benchmarks.calculon`).
"""

import argparse
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.calculon import can_express, is_checkout
from benchmarks.calculon import predicted as calculon_predicted
from benchmarks.training_rows import Run, command, fitting_runs, runs, with_rates
from dse.plan.check_costs import plan_costs
from dse.plan.search.enumeration import Priced, enumerate_plans
from hardware.network import Network
from hardware.units import GIB

PLAIN_MFU = 0.4
LATER = ("selene-gpt3-175B", "selene-megatron-1T")
"""Rows that came in after everything else had been decided."""

LOWEST, HIGHEST = 0.3, 1.0
"""Of a fitted rate."""


@dataclass(frozen=True)
class Row:
    """A run beside its prediction; ``fitted`` where a constant was fitted to it."""

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
    enumerated = enumerate_plans(with_rates(run.problem, **rates))
    assert enumerated.least is not None, run.name
    return (enumerated.best, True) if enumerated.best is not None else (enumerated.least, False)


def ideal_s(run: Run) -> float:
    """Seconds of a step at 100 % MFU."""
    problem = run.problem
    peak = problem.system.chip.peak_flops[dict(problem.fixed)["precision"]] * problem.devices
    return problem.model.flops_per_sample(problem.sequence) * problem.global_batch / peak


def fitted_rates(rows: Sequence[Run]) -> dict[str, float]:
    """The rates with the least squared logarithmic error on ``rows``: by a grid that is made finer around its best."""
    names = ("matrix", "memory") if len(rows) > 1 else ("matrix",)
    centre, reach = dict.fromkeys(names, (LOWEST + HIGHEST) / 2), (HIGHEST - LOWEST) / 2
    for _ in range(4):
        axes = [
            sorted({min(HIGHEST, max(LOWEST, centre[name] + reach * step / 6)) for step in range(-6, 7)})
            for name in names
        ]
        points = [(x,) for x in axes[0]] if len(axes) == 1 else [(x, y) for x in axes[0] for y in axes[1]]
        best = _least_misfit(rows, names, points)
        centre, reach = dict(zip(names, best, strict=True)), reach / 5
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


def mean_and_worst(errors: Iterable[float]) -> str:
    """Of absolute errors, in percent."""
    sizes = [abs(error) for error in errors]
    return f"{100 * sum(sizes) / len(sizes):6.1f} {100 * max(sizes):7.1f}" if sizes else "     –       –"


def ordered(rows: Sequence[Row]) -> tuple[int, int]:
    """(pairs in the right order, all pairs): of runs on one chip whose efficiency differs by more than 5 %."""
    right = total = 0
    for one, other in combinations(rows, 2):
        if one.run.chip != other.run.chip:
            continue
        measured = (ideal_s(one.run) / one.run.step_s) / (ideal_s(other.run) / other.run.step_s)
        if abs(math.log(measured)) <= math.log(1.05):
            continue
        guess = (ideal_s(one.run) / one.best.step_s) / (ideal_s(other.run) / other.best.step_s)
        total += 1
        right += (guess > 1) == (measured > 1)
    return right, total


def show_calculon(rows: Sequence[Row], checkout: Path) -> None:
    """Calculon's predictions of the same plans, beside ours, and both on the same rows by quality."""
    timed = [row for row in rows if row.run.step_s is not None]
    known = [row for row in timed if can_express(row.run.problem, row.best.plan)]
    print(f"\n{'the same plans':<58} {'q':<2}{'measured s':>11} {'ours, error %':>14} {'Calculon, error %':>18}")
    compared: list[tuple[Row, float]] = []
    for row in known:
        said = calculon_predicted(checkout, row.run.problem, row.best.plan)
        error = said.refusal
        if said.step_s is not None:
            compared.append((row, said.step_s / (row.run.step_s or math.nan) - 1))
            error = f"{100 * compared[-1][1]:>+18.1f}"
        ours = f"{row.run.name[:57]:<58} {row.run.quality:<2}{row.run.step_s:>11.4g} {100 * row.error:>+14.1f}"
        print(f"{ours} {error}{'  fitted' if row.fitted else ''}")
    print(f"Calculon has words for {len(known)} of {len(timed)} timed rows, and figures for {len(compared)}")
    groups = {f"quality {each}": [pair for pair in compared if pair[0].run.quality == each] for each in "ABC"}
    for name, pairs in {**groups, "all": compared}.items():
        free = [(row.error, error) for row, error in pairs if not row.fitted]
        if free:
            ours, theirs = (mean_and_worst(errors) for errors in zip(*free, strict=True))
            better = sum(abs(error) < abs(own) for own, error in free)
            print(
                f"{name + ', nothing of ours fitted to':<44} {len(free):>3} rows: mean and worst of ours {ours}, "
                f"of Calculon {theirs}; Calculon is closer on {better}"
            )


def show(rows: Sequence[Row]) -> None:
    """The tables."""
    print(f"{'run':<58} {'q':<2}{'stack':<17}{'measured s':>11} {'predicted s':>11} {'error %':>8} {'fixed MFU %':>11}")
    for row in rows:
        if row.run.step_s is None:
            continue
        print(
            f"{row.run.name[:57]:<58} {row.run.quality:<2}{row.run.software:<17}{row.run.step_s:>11.4g} "
            f"{row.best.step_s:>11.4g} {100 * row.error:>+8.1f} {100 * row.plain_error:>+11.1f}  {row.marks}"
        )
    timed = [row for row in rows if row.run.step_s is not None]
    free = [row for row in timed if not row.fitted]
    selene = [row for row in free if row.run.name.startswith("selene")]
    groups = {"Selene": selene}
    groups |= {f"quality {each}": [row for row in free if row.run.quality == each] for each in "ABC"}
    # SimuMax's rows ran on the machine that its kernels and collectives were timed on.
    best = groups["quality A"]
    groups["quality A without SimuMax's"] = [row for row in best if not row.run.name.startswith("simumax")]
    groups["quality A without 175B and 1T"] = [row for row in best if not row.run.name.startswith(LATER)]
    groups |= {
        each: [row for row in free if row.run.software == each] for each in sorted({r.run.software for r in free})
    }
    groups |= {each: [row for row in free if row.run.chip == each] for each in sorted({r.run.chip for r in free})}
    print(
        f"\n{'rows that nothing was fitted to':<34} {'rows':>4} {'mean %':>6} {'worst %':>7}   fixed MFU: mean, worst"
    )
    for name, group in groups.items():
        plain = mean_and_worst(row.plain_error for row in group)
        print(f"{name:<34} {len(group):>4} {mean_and_worst(row.error for row in group)}   {plain}")
    right, total = ordered([row for row in free if row.run.quality == "A"])
    print(f"order of two runs of quality A on one chip: right in {right} of {total}")
    show_memory(rows)
    misfits = [row.run.name for row in timed if not row.fits]
    print(f"runs that ran and are said not to fit: {', '.join(misfits) or 'none'}")


def show_memory(rows: Sequence[Row]) -> None:
    """Of the fullest rank, beside what is published of it."""
    print(f"\n{'memory':<58} {'measured GiB':>12} {'predicted GiB':>13} {'error %':>8}  published")
    known = [row for row in rows if row.run.memory_gib is not None]
    for row in known:
        sizes = f"{row.run.memory_gib:>12.1f} {row.memory_gib:>13.1f} {100 * row.memory_error:>+8.1f}"
        mark = ", fitted" if row.memory_is_fitted else ""
        print(f"{row.run.name[:57]:<58} {sizes}  {row.run.memory_kind}{mark}")
    free = [row for row in known if not row.memory_is_fitted]
    print(f"{'mean and worst, all':<58} {mean_and_worst(row.memory_error for row in known)}")
    print(f"{f'  not fitted to, {len(free)} rows':<58} {mean_and_worst(row.memory_error for row in free)}")
    for kind in dict.fromkeys(row.run.memory_kind for row in free):
        of_kind = [row.memory_error for row in free if row.run.memory_kind == kind]
        print(f"{f'  {kind}, {len(of_kind)} rows':<58} {mean_and_worst(of_kind)}")


def refit() -> None:
    """The rates of each stack as a fit finds them now."""
    for name, rows in sorted(fitting_runs(runs()).items()):
        rates = fitted_rates(rows)
        spec = {each: getattr(rows[0].problem.stack, each).value for each in rates}
        ratio, known = fitted_reserved(rows), rows[0].problem.stack.reserved
        if ratio is not None:
            rates["reserved"], spec["reserved"] = ratio, math.nan if known is None else known.value
        print(f"{name}: refit {rates}, spec {spec}; rows {', '.join(run.name for run in rows)}")


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--fit", action="store_true", help="fit the rates of the stacks again")
    asked.add_argument("--commands", type=Path, metavar="DIR", help="print the command that poses each row")
    asked.add_argument("--calculon", type=Path, metavar="PATH", help="a checkout of Calculon to compare with")
    begun, arguments = time.process_time(), parser.parse_args()
    if arguments.calculon is not None and not is_checkout(arguments.calculon):
        parser.exit(2, f"error: --calculon: {arguments.calculon}: no checkout of Calculon: it has no bin/calculon\n")
    if arguments.commands is not None:
        try:
            print("\n".join(f"# {run.name}\n{command(run, arguments.commands)}" for run in runs()))
        except OSError as error:
            parser.exit(2, f"error: --commands: {error.filename}: cannot be written to: {error.strerror}\n")
    elif arguments.fit:
        refit()
    else:
        every = table()
        show(every)
        if arguments.calculon is not None:
            show_calculon(every, arguments.calculon)
    print(f"{time.process_time() - begun:.1f} s CPU")
