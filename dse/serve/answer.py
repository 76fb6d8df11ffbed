"""From a problem to the best configuration, what it costs, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dse.report.units import memory_text, needed_memory_text, time_text
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError
from dse.run.progress import StopSignal, never_stop
from dse.serve.check import Costs
from dse.serve.check_disaggregated import costs, violations
from dse.serve.front import front
from dse.serve.intervals import documents as intervals
from dse.serve.problem import Goals, ServeProblem
from dse.serve.repricing import Repriced, events_document, repriced, statistics
from dse.serve.requests import GivenRequests
from dse.serve.rules import broken
from dse.serve.search import Choice, Searched, search
from dse.serve.serving_plan import PARTS, Plan, SplitPlan
from dse.serve.vocabulary import cells, grid, modes, plan_of, worker_cells, worker_grid
from hardware.inputs import fail
from hardware.silicon.interval import Interval

NEAR = 0.04
"""Of the objective: the closed form is so far from events in TPOT (docs/method/serving.md)."""

MOST_REPRICED = 24

TIGHTER = (0.8, 0.65, 0.5, 0.35, 0.25)
"""Shares of limits on percentiles that means are held to where the best by means do not keep these limits."""

MOST_TIGHTER = 8
"""Configurations that are looked at by events for each of these shares."""

_BEFORE_TOKENS = ("waiting", "request", "prefill", "transfer")
_JOULES_PER_KWH = 3.6e6
_MILLION = 1e6


@dataclass(frozen=True)
class ServeAnswer:
    """What a search says.

    Attributes:
        matching: of the configurations that have what is fixed.
        every: of all; ``matching`` where nothing is fixed, None where the search was stopped before.
        seed: of events.
    """

    matching: Searched
    every: Searched | None
    seed: int = 0

    @cached_property
    def best(self) -> Choice | None:
        """That has what is fixed and keeps the limits."""
        return chosen(self.matching, self.seed)

    @property
    def bound(self) -> Choice | None:
        """The best that has what is fixed and whose means keep the limits.

        With limits on percentiles, which may lie below means, that without any limit.
        """
        goals = self.matching.problem.goals
        return self.matching.best(goals if goals.statistic == "mean" else Goals())

    @property
    def stopped(self) -> str | None:
        """Why the search ended early."""
        return self.matching.stopped

    @cached_property
    def other(self) -> Choice | None:
        """The best of all, where they were searched to the end."""
        every = self.every
        return None if every is None or every.stopped is not None else chosen(every, self.seed)

    @property
    def evaluations(self) -> int:
        """Configurations that were priced."""
        others = 0 if self.every is None or self.every is self.matching else self.every.priced
        return self.matching.priced + others


def chosen(searched: Searched, seed: int) -> Choice | None:
    """The best configuration by means; with limits on percentiles, the best of those that keep them by events.

    Percentiles are looked at from the best by means down, of so many as :data:`MOST_REPRICED` says. Where no means keep
    the limits, percentiles still may: of those whose means are nearest. Where none keeps them, means are held to
    :data:`TIGHTER` shares of the limits. Otherwise it is the best by means.
    """
    goals, problem = searched.problem.goals, searched.problem
    best = searched.best(goals)
    if goals.statistic == "mean" or (goals.ttft_s is None and goals.tpot_s is None):
        return best
    for each in searched.ranked(goals, MOST_REPRICED, near=np.inf) or searched.closest(goals, MOST_REPRICED):
        if repriced(problem, each.plan, seed).keeps(goals):
            return each
    for share in TIGHTER if best is not None else ():
        held = replace(
            goals,
            ttft_s=None if goals.ttft_s is None else share * goals.ttft_s,
            tpot_s=None if goals.tpot_s is None else share * goals.tpot_s,
        )
        for each in search(replace(problem, goals=held)).ranked(held, MOST_TIGHTER, near=np.inf):
            if repriced(problem, each.plan, seed).keeps(goals):
                return each
    return best


def solve(problem: ServeProblem, stop: StopSignal = never_stop, seed: int = 0) -> ServeAnswer:
    """The best configuration, proven; the best so far where ``stop`` gives a reason.

    Raises:
        InputError: no configuration keeps the rules.
    """
    matching = search(problem, stop)
    if matching.stopped is None and not matching.vocabulary:
        raise _nothing_legal(problem)
    if not problem.fixed:
        return ServeAnswer(matching, matching, seed)
    return ServeAnswer(matching, None if matching.stopped is not None else search(problem.opened(), stop), seed)


def checked(problem: ServeProblem, answer: ServeAnswer) -> None:
    """Refuse an answer that the checker refuses.

    Raises:
        FailedCheckError: a fault of this program.
    """
    for best, asked in ((answer.best, problem), (answer.other, problem.opened())):
        if best is not None and (faults := violations(asked, best.plan, best.value(problem.fewest))):
            raise FailedCheckError("; ".join(faults))


def metrics(problem: ServeProblem, best: Choice, seed: int) -> dict[str, Any]:
    """Of one configuration: the closed form by the checker's own costs, and what clients see by events."""
    own, events = costs(problem, best.plan), repriced(problem, best.plan, seed)
    means = {
        "ttft_s": statistics(events.outcome.ttft_s),
        "tpot_s": statistics(events.outcome.tpot_s),
        "latency_s": statistics(events.outcome.latency_s),
    }
    return {
        "accelerators": best.plan.accelerators,
        "tokens_per_s": own.tokens_per_s,
        "tokens_per_s_per_accelerator": own.tokens_per_s / best.plan.accelerators,
        "largest_rate_per_s": own.rate_per_s,
        **means,
        "intervals": intervals(problem, best.plan, means),
        "closed_form": {"ttft_s": own.ttft_s, "tpot_s": own.tpot_s, "latency_s": own.latency_s},
        "events": events_document(problem, events),
        "time_s": own.time_s,
        "memory_bytes": own.memory_bytes,
        "kv_tokens": own.kv_tokens,
        "running": own.running * best.plan.groups,
        "binds": binds(problem, own, best),
        **_service(problem, own, best.plan.accelerators),
        **({} if own.pools is None else {"pools": _pools(best.plan, own.pools)}),
    }


def _pools(plan: Plan, rates: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Of each kind of workers: accelerators, and the most requests a second that they answer."""
    return {
        name: {"accelerators": getattr(plan, name).accelerators, "largest_rate_per_s": rate}
        for name, rate in rates.items()
    }


def binds(problem: ServeProblem, own: Costs, best: Choice) -> list[str]:
    """What keeps the configuration from more: limits within a hundredth, memory, and the largest part of a token."""
    named = {"ttft": (problem.goals.ttft_s, own.ttft_s), "tpot": (problem.goals.tpot_s, own.tpot_s)}
    tight = [name for name, (limit, mean) in named.items() if limit is not None and mean > 0.99 * limit]
    stages = best.plan.decode.pipeline if isinstance(best.plan, SplitPlan) else best.plan.pipeline
    if own.running * stages >= own.held:
        tight.append("memory")
    if own.pools is not None:
        tight.append(f"{min(own.pools, key=own.pools.__getitem__)} workers")
    tokens = {name: seconds for name, seconds in own.time_s.items() if name not in _BEFORE_TOKENS}
    return [*tight, max(tokens, key=lambda name: tokens[name])]


def _service(problem: ServeProblem, own: Costs, devices: int) -> dict[str, Any]:
    """Tokens a joule, and dollars a million output tokens, as [value, low, high]; null where they are not known."""
    known = problem.service
    if known is None:
        return {"tokens_per_joule": None, "usd_per_million_tokens": None}
    tokens_an_hour = own.tokens_per_s * 3600
    joules = known.kw * (devices * _JOULES_PER_KWH / tokens_an_hour)
    dollars = {
        name: _triple(hourly * (devices * _MILLION / tokens_an_hour))
        for name, hourly in (("at_cost", known.usd_at_cost), ("at_price", known.usd_at_price))
    }
    return {"tokens_per_joule": _triple(joules.inverse()), "usd_per_million_tokens": dollars}


def _triple(figure: Interval) -> list[float]:
    return [float(figure.value), float(figure.low), float(figure.high)]


def choice_document(choice: Choice) -> dict[str, Any]:
    """A configuration with its means by the closed form, in JSON types."""
    return {
        "tokens_per_s_per_accelerator": choice.tokens_per_s_per_accelerator,
        "accelerators": choice.plan.accelerators,
        "ttft_s": choice.ttft_s,
        "tpot_s": choice.tpot_s,
        "plan": choice.plan.document(),
    }


def order(problem: ServeProblem, answer: ServeAnswer, seed: int) -> dict[str, Any]:
    """The configurations within the closed form's error of the best one, by events: whether the order holds."""
    best = answer.best
    assert best is not None, "only called if one keeps the limits"
    ranked = answer.matching.ranked(problem.goals, MOST_REPRICED, NEAR)
    near = [best, *(each for each in ranked if each.plan != best.plan)]
    by_events = [repriced(problem, each.plan, seed) for each in near]
    first = max(range(len(near)), key=lambda place: (_by_events(problem, by_events[place]), -place))
    return {
        "repriced": len(near),
        "holds": first == 0,
        "best": {
            "tokens_per_s_per_accelerator": by_events[first].tokens_per_s_per_accelerator,
            "accelerators": near[first].plan.accelerators,
            "ttft_s": statistics(by_events[first].outcome.ttft_s)["mean"],
            "tpot_s": statistics(by_events[first].outcome.tpot_s)["mean"],
            "plan": near[first].plan.document(),
        },
    }


def _by_events(problem: ServeProblem, own: Repriced) -> tuple[bool, float]:
    """What counts: first whether limits hold, then the objective; differences below a thousandth are none."""
    value = -float(own.plan.accelerators) if problem.fewest else own.tokens_per_s_per_accelerator
    return own.keeps(problem.goals), float(f"{value:.3g}")


def beside(problem: ServeProblem, answer: ServeAnswer, seed: int) -> dict[str, Any]:
    """What the metrics hold in addition to those of the best configuration."""
    best = answer.best
    assert best is not None, "only called if one keeps the limits"
    more: dict[str, Any] = {
        "configurations": {"priced": answer.evaluations, "vocabulary": _vocabulary(answer)},
        "order": order(problem, answer, seed),
        "without": _without(problem, answer),
        "front": front(problem),
    }
    if len(modes(problem)) > 1:
        best_of = {mode: answer.matching.of_mode(mode).best(problem.goals) for mode in modes(problem)}
        more["modes"] = {mode: choice_document(each) for mode, each in best_of.items() if each is not None}
    if (most := _most_output(problem, best)) is not None:
        more["most_output"] = choice_document(most)
    if problem.fixed and answer.other is not None:
        more["best"] = choice_document(answer.other)
    return more


def _most_output(problem: ServeProblem, best: Choice) -> Choice | None:
    """In a closed loop the configuration of the most output in all, where the best leaves accelerators free.

    None where this is the best too, and with limits on percentiles, of which means say nothing.
    """
    limited = (problem.goals.ttft_s, problem.goals.tpot_s) != (None, None)
    is_free = best.plan.accelerators < problem.devices
    if problem.is_open or problem.fewest or not is_free or (limited and problem.goals.statistic != "mean"):
        return None
    most = search(problem, of_machine=True).best(problem.goals)
    return most if most is not None and most.tokens_per_s > best.tokens_per_s * (1 + 1e-9) else None


def _vocabulary(answer: ServeAnswer) -> int:
    others = 0 if answer.every is None or answer.every is answer.matching else answer.every.vocabulary
    return answer.matching.vocabulary + others


def _without(problem: ServeProblem, answer: ServeAnswer) -> dict[str, Any]:
    """The best configuration without each limit, and on all accelerators."""
    goals, after = problem.goals, {}
    relaxed = {"ttft": replace(goals, ttft_s=None), "tpot": replace(goals, tpot_s=None)}
    for name, without in relaxed.items():
        if without != goals:
            free = answer.matching.best(without)
            if free is not None:  # the means of an answer that keeps percentiles may exceed the other limit
                after[name] = choice_document(free)
    return after


def _nothing_legal(problem: ServeProblem) -> Exception:
    """What is wrong with a problem where no configuration keeps the rules."""
    if not problem.fixed:
        chip = problem.system.chip.name
        rule = f"no configuration of {problem.model.name} keeps the rules on so many {chip}"
        return fail("dse serve", "--accelerators", problem.devices, rule)
    fixed = dict(problem.fixed)
    free = problem.opened()
    if fixed.get("mode") == "disaggregated":
        raise _no_pair(problem)
    whole = (replace(plan_of(cell, columns, 0), **fixed) for cell in cells(free) if len(columns := grid(free, cell)))
    faults = [[each for each in broken(problem, plan) if each[0] in fixed] for plan in whole]
    key, rule, hint = min(filter(None, faults), key=len, default=[("", "", None)])[0]
    if not key:
        text = ",".join(f"{key}={value}" for key, value in problem.fixed)
        return fail("--plan", "", text, f"no configuration has these values on {problem.devices} accelerators")
    return fail("--plan", key, fixed[key], f"{rule}, with the other keys", None if hint is None else f"{hint}")


def _no_pair(problem: ServeProblem) -> Exception:
    """What is wrong with fixed workers apart, of which no pair keeps the rules."""
    text = ",".join(f"{key}={value}" for key, value in problem.fixed)
    for part in PARTS:
        if not any(len(worker_grid(problem, cell, part)) for cell in worker_cells(problem, part)):
            rule = f"no {part} workers have these values on {problem.devices} accelerators"
            return fail("--plan", "", text, rule)
    return fail("--plan", "", text, f"no configuration has these values on {problem.devices} accelerators")


def infeasibility(problem: ServeProblem, answer: ServeAnswer) -> Infeasibility:
    """Why no configuration keeps the limits, and the nearest."""
    searched = answer.matching
    nearest = searched.nearest(problem.goals)
    which = (
        f"no configuration with the given {', '.join(key for key, _ in problem.fixed)}"
        if problem.fixed
        else ("no configuration in the vocabulary")
    )
    levers = [] if answer.other is None else [f"--plan {answer.other.plan.text()}"]
    if nearest is not None:
        return _over_limits(problem, nearest, which, levers)
    busiest = searched.busiest()
    if busiest is not None:
        return _over_rate(problem, busiest, which, levers)
    return _over_memory(problem, searched, which, levers)


def _over_limits(problem: ServeProblem, nearest: Choice, which: str, levers: list[str]) -> Infeasibility:
    goals = problem.goals
    pairs = {"ttft": (nearest.ttft_s, goals.ttft_s), "tpot": (nearest.tpot_s, goals.tpot_s)}
    ratios = {name: mean / limit for name, (mean, limit) in pairs.items() if limit is not None}
    worst = max(ratios, key=lambda name: ratios[name])
    mean, limit = pairs[worst]
    assert limit is not None
    said = f"{which} keeps the limits: the nearest has a {worst.upper()} of {time_text(mean)}"
    if goals.statistic != "mean":
        said = (
            f"none of the {MOST_REPRICED} configurations with the nearest means keeps the limits on {goals.statistic} "
            f"by events: the nearest has a mean {worst.upper()} of {time_text(mean)}"
        )
    said += f", {time_text(limit)} allowed"
    levers = [*levers, f"--{worst} {_rounded_up(mean)}", "more accelerators", "fewer requests"]
    return Infeasibility(
        resource=f"{worst}_s", demand=mean, limit=limit, unit="s", levers=levers,
        explanation=f"{said} ({ratios[worst]:.3g} times as much): {nearest.plan.text()}",
        where=choice_document(nearest),
    )  # fmt: skip


def _over_rate(problem: ServeProblem, busiest: Choice, which: str, levers: list[str]) -> Infeasibility:
    rate, most = problem.load.rate_per_s, busiest.rate_per_s
    needed = -(-rate // (most / problem.devices))
    is_drawn = not isinstance(problem.load, GivenRequests)
    slower = f"--rate {most * 0.99:.3g}" if is_drawn else f"requests {rate / most * 1.01:.3g} times as far apart"
    return Infeasibility(
        resource="rate_per_s", demand=rate, limit=most, unit="1/s",
        levers=[*levers, slower, f"about {needed:,.0f} accelerators"],
        explanation=f"{which} answers {rate:g} requests a second: the largest stable rate is {most:.4g}, with "
        f"{busiest.plan.text()}",
        where={"plan": busiest.plan.document()},
    )  # fmt: skip


def _over_memory(problem: ServeProblem, searched: Searched, which: str, levers: list[str]) -> Infeasibility:
    plans = [part.plan(0) for part in searched.parts]
    if not plans:
        return _over_all_memory(problem, which, levers)
    least = min(plans, key=lambda plan: costs(problem, plan).overflow_bytes)
    own, total = costs(problem, least), float(problem.system.chip.hbm_bytes)
    demand = total + own.overflow_bytes
    weights = own.memory_bytes.get("weights", own.memory_bytes.get("decode: weights", 0.0))
    return Infeasibility(
        resource="hbm_bytes", demand=demand, limit=total, unit="bytes",
        levers=[*levers, "more accelerators", "weights or keys and values in fewer bits", "shorter requests"],
        explanation=f"{which} fits: with {least.text()}, weights take {memory_text(weights)} of an accelerator, and "
        f"one request needs {needed_memory_text(own.overflow_bytes)} more than is left of the {memory_text(total)} of "
        f"{problem.system.chip.name}",
        where={"plan": least.document(), "memory_bytes": own.memory_bytes},
    )  # fmt: skip


def _over_all_memory(problem: ServeProblem, which: str, levers: list[str]) -> Infeasibility:
    """Where no two kinds of workers fit."""
    total = float(problem.system.chip.hbm_bytes)
    return Infeasibility(
        resource="hbm_bytes", demand=total, limit=total, unit="bytes",
        levers=[*levers, "more accelerators", "weights or keys and values in fewer bits", "shorter requests"],
        explanation=f"{which} fits: no prefill worker and decode worker together fit the {memory_text(total)} of each "
        f"of {problem.devices:,} {problem.system.chip.name}",
        where={},
    )  # fmt: skip


def _rounded_up(seconds: float) -> str:
    return f"{seconds * 1.005:.3g}"
