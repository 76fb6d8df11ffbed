"""What would change the answer of a search over chips: the ends of the interval of area, and each limit left out.

Limits are those of area, power and cost, and each axis of which a space has less than the one that it is like.
The factor of a style is what areas are least sure of, and it is the same for all chips of a space. So the chips that
the interval of the area model cannot separate from the answer are those that are the best with a factor within it: the
best at both ends are given. A limit costs what the best chip without it has more. Each change makes another problem,
whose optimum is proven by the same search. Beside it stands the regret of the answer's chip: how much lower its score
is then, with its best plans; a chip that is no longer within the limits has none.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dse.codesign.chips.leaf import ChosenChip, Priced
from dse.codesign.chips.problem import ChipProblem, Limits
from dse.codesign.chips.search import ChipOutcome, ChipSearch
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, never_stop, silent
from hardware.silicon.tables import fitted


def changes(problem: ChipProblem) -> Iterator[tuple[str, ChipProblem]]:
    """Each change by its label."""
    known, key, plain = fitted(), f"{problem.space.style.value}_factor", replace(problem, within=0.0, pareto=())
    factor = getattr(known, key)
    for end, value in (("low", factor.low), ("high", factor.high)):
        constants = known.model_copy(update={key: factor.model_copy(update={"value": value})})
        yield f"areas at the {end} end of their interval", replace(plain, constants=constants)
    yield from _opened(plain)
    if problem.space.area_mm2 is not None:
        whole = problem.space.model_copy(update={"area_mm2": None})
        yield "without the area limit, up to the exposure field", replace(plain, space=whole)
    if np.isfinite(problem.limits.power_w):
        yield "without the power cap", replace(plain, limits=Limits(usd=problem.limits.usd))
    if np.isfinite(problem.limits.usd):
        yield "without the cost limit", replace(plain, limits=Limits(power_w=problem.limits.power_w))


_AXES = {
    "nodes": "nodes",
    "dies": "numbers of dies",
    "arrays": "arrays",
    "units": "numbers of units",
    "lanes": "lanes",
    "local_kib": "local SRAM",
    "shared_mib": "shared SRAM",
    "clock_hz": "clocks",
    "formats": "formats",
    "memories": "memories",
    "scale_up": "links and domains",
}
"""What a space may have less of than the one that it is like, in words."""


def _opened(problem: ChipProblem) -> Iterator[tuple[str, ChipProblem]]:
    """With all that the space which this one is like has, axis by axis, where this one has less."""
    whole = problem.wider
    if whole is None:
        return
    for axis, words in _AXES.items():
        if getattr(whole, axis) != getattr(problem.space, axis):
            space = problem.space.model_copy(update={axis: getattr(whole, axis)})
            yield f"with all {words} of {whole.name}", replace(problem, space=space)


def after_changes(
    problem: ChipProblem,
    chip: ChosenChip,
    stop: StopSignal = never_stop,
    progress: ProgressCallback = silent,
    executor: Executor | None = None,
    journal: Journal | None = None,
) -> dict[str, tuple[Priced | None, float | None]]:
    """By change: the best chip, and the regret of ``chip``; the rest is what a search takes.

    Raises:
        StoppedError: the stop signal gave a reason.
    """

    def searched(each: ChipProblem) -> ChipOutcome:
        outcome = ChipSearch(each, stop, progress, executor, journal).run()
        if outcome.stopped is not None:
            raise StoppedError(outcome.stopped)
        return outcome

    return {label: _after(searched(changed), searched(alone(changed, chip))) for label, changed in changes(problem)}


def _after(best: ChipOutcome, own: ChipOutcome) -> tuple[Priced | None, float | None]:
    if not best.best:
        return None, None
    return best.best[0], 1 - own.score / best.score if own.best else None


def alone(problem: ChipProblem, chip: ChosenChip) -> ChipProblem:
    """The same over one chip."""
    space = problem.space
    sizes: dict[str, list[Any]] = {
        "nodes": [chip.how.node],
        "arrays": [(chip.width, chip.depth)],
        "units": [chip.units],
        "lanes": [chip.lanes],
        "local_kib": [chip.local_kib],
        "shared_mib": [chip.shared_mib],
        "clock_hz": [chip.clock_hz],
        "dies": [chip.how.dies],
    }
    updates: dict[str, Any] = {
        name: getattr(space, name).model_copy(update={"values": values}) for name, values in sizes.items()
    }
    kind, stacks, gb = chip.memory.kind, [chip.memory.stacks], [chip.memory.gb]
    updates["memories"] = [space.memories[0].model_copy(update={"kind": kind, "stacks": stacks, "gb": gb})]
    up = space.scale_up
    rates = up.bytes_per_s.model_copy(update={"values": [chip.links.bytes_per_s]})
    domains = up.domains.model_copy(update={"values": [chip.links.domain]})
    updates["scale_up"] = up.model_copy(update={"bytes_per_s": rates, "domains": domains})
    number = problem.formats_of(chip.precision)
    able = tuple(each for each in problem.precisions if problem.formats_of(each) <= number)
    kept = able if len(problem.models) > 1 else (chip.precision,)
    return replace(problem, space=space.model_copy(update=updates), precisions=kept)
