"""What a plan's figures rest on, what it lacks, and how far from the best it is, in sentences for people."""

import statistics
from collections.abc import Mapping
from dataclasses import replace

from dse.plan.check_costs import plan_costs
from dse.plan.export import inexpressible
from dse.plan.headroom import PARTS, is_known
from dse.plan.idle_settings import idle_settings
from dse.plan.intervals import LEVEL, told_apart
from dse.plan.model import Transformer
from dse.plan.options import USUAL_PRECISION, opened
from dse.plan.problem import PlanProblem
from dse.plan.recomputation import ALL_SETS, modules_in, set_word
from dse.plan.search.vocabulary import tried_sets
from dse.plan.stack import Stack
from dse.plan.stack_range import why_usual
from dse.plan.training_plan import TrainingPlan, whole_plan
from dse.report.units import memory_text, needed_memory_text, share_text, time_text
from dse.report.view import Decisive
from dse.results.result import Result
from hardware.network import Network
from hardware.units import GIGA

_ATTENTION = {
    "fused": "fused: scores stay on chip, as on real chips",
    "unfused": "unfused: scores pass through memory",
}


def plan_notes(problem: PlanProblem, result: Result) -> list[str]:
    """All that people should know of a priced plan, in the order in which it is told."""
    return [
        *_best_note(result),
        *_idle_notes(problem, whole_plan(result.solution["plan"], "result")),
        *_launch_notes(problem, result),
        f"a step processes {problem.global_batch:,} samples of {problem.sequence:,} tokens",
        *assumed_notes(problem.model, problem.sequence),
        *_sets_note(problem, result),
        *_prediction_layers_note(problem),
        *basis_notes(problem),
        *_headroom_notes(problem, result),
        *software_notes(problem, result),
        *_interval_notes(problem, result),
    ]


def _best_note(result: Result) -> list[str]:
    best = result.metrics.get("best")
    if best is None:
        return []
    plan, own = whole_plan(best["plan"], "result").text(), result.metrics["step_s"]
    if best["step_s"] > own * (1 + 1e-9):
        return [
            Decisive(
                f"this plan, which is outside the vocabulary, takes {time_text(own)}; the proven best in the "
                f"vocabulary takes {time_text(best['step_s'])} ({share_text(best['step_s'] / own - 1)} more): {plan}"
            )
        ]
    if best["step_s"] >= own * (1 - 1e-9):
        return [Decisive("no plan in the vocabulary is faster on this machine (proven)")]
    chance = result.metrics.get("best_is_faster")
    doubt = ""
    if chance is not None:
        likely = "over 99.9 %" if chance > 0.999 else f"{'only ' if chance < LEVEL else ''}{share_text(chance)}"
        doubt = f", really faster with a probability of {likely}"
    return [
        Decisive(
            f"this plan takes {time_text(own)}; the proven best takes {time_text(best['step_s'])} "
            f"({share_text(1 - best['step_s'] / own)} less{doubt}): {plan}"
        )
    ]


def _interval_notes(problem: PlanProblem, result: Result) -> list[str]:
    """Why there is no interval, and how many plans the model cannot tell from the best one."""
    reasons = {str(each["reason"]) for each in result.metrics["intervals"].values() if "reason" in each}
    notes: list[str] = [Decisive(f"no 90 % interval: {reason}") for reason in sorted(reasons)]
    front, apart = result.metrics.get("pareto") or [], told_apart(problem)
    if apart is None:
        return notes
    near = sum(each["step_s"] <= apart * result.metrics["step_s"] for each in front)
    if near > 1:
        notes.append(
            f"of the {len(front)} plans with the best step for their memory, {near} are within "
            f"{share_text(apart - 1)} of the fastest, which the model cannot tell apart with 90 % certainty"
        )
    return notes


def assumed_notes(model: Transformer, sequence: int) -> list[str]:
    """What a model's file does not say, and was taken for it; not of samples where their length was given."""
    given = sequence != model.sequence
    return [
        Decisive(f"assumed for {model.name}: {words}")
        for field, words in model.assumed.items()
        if not (field == "sequence" and given)
    ]


def _sets_note(problem: PlanProblem, result: Result) -> list[str]:
    """Which sets of modules the best plan is the best of, where the vocabulary does not have all."""
    chosen = problem if result.metrics.get("best") is None else opened(problem)
    sets = [set_word(code) for code in tried_sets(chosen)]
    if ALL_SETS not in problem.stack.recomputations.value or len(sets) in (0, 2 ** len(modules_in(problem.model))):
        return []
    return [f"module sets that the search may recompute: {', '.join(sets)}; --plan accepts any other set"]


def _prediction_layers_note(problem: PlanProblem) -> list[str]:
    """That the last stage has more than its share of the layers."""
    model = problem.model
    if not model.prediction_layers:
        return []
    size = (
        f"{model.prediction_parameters / GIGA:,.1f} billion parameters, in addition to the other "
        f"{model.parameters / GIGA:,.1f} billion"
    )
    return [f"multi-token-prediction layers: {model.prediction_layers}, in the last stage ({size})"]


def _launch_notes(problem: PlanProblem, result: Result) -> list[str]:
    """What the plan and the best plan have that the framework of the stack lacks."""
    own, best = result.solution["plan"], result.metrics.get("best")
    plans = [("plan", own)]
    if best is not None and best["plan"] != own:
        plans.append(("proven best", best["plan"]))
    said = [(word, inexpressible(problem, whole_plan(document, "result"))) for word, document in plans]
    return [
        Decisive(f"{lacking}, so the {word} cannot run with this framework")
        for word, lacking in said
        if lacking is not None
    ]


def basis_notes(problem: PlanProblem) -> list[str]:
    """What the times and the memory of plans rest on: measured runs, timed kernels, assumptions."""
    stack, chip = problem.stack, problem.system.chip
    runs = sorted({run for rate in stack.rates.values() for run in rate.fitted})
    notes = [*chip.notes, f"stack {stack.name}: rates fitted to {', '.join(runs) or 'no training run'}"]
    timed = sorted(f"{key} on {rate.timed_on}" for key, rate in stack.rates.items() if rate.timed_on)
    assumed = sorted(key for key, rate in stack.rates.items() if rate.assumed)
    if timed:
        notes.append(f"sustained shares from individually timed kernels: {', '.join(timed)}")
    if assumed:
        notes.append(f"assumed sustained shares: {', '.join(assumed)}")
    stated = sorted(key for key, rate in stack.rates.items() if not (rate.fitted or rate.timed_on or rate.assumed))
    if stated:
        notes.append(f"sustained shares stated by the stack without measurement: {', '.join(stated)}")
    if timed or assumed:
        notes.append("times based on timed kernels and on assumed shares are not comparable across accelerators")
    notes += [*_timed_collectives(problem), _memory_note(stack)]
    if USUAL_PRECISION not in chip.peak_flops:
        notes.append(Decisive(f"{chip.name} has no {USUAL_PRECISION}: linear layers are in {problem.precision}"))
    if "offload" in problem.settings:
        rate = f"{problem.host_bytes_per_s / GIGA:.4g} GB/s"
        kept = problem.settings["offload"].replace("+", " and ")
        notes.append(
            Decisive(
                f"{kept} in the host's memory, at {rate} per accelerator in each direction; its size is not checked"
            )
        )
    elsewhere = stack.measured_elsewhere(chip.name)
    if problem.machine is not None:
        notes.append(
            Decisive(
                f"{chip.name} is a template: its kernels take the times of their best mapping to its cores, which real "
                f"kernels do not reach; attention is {_ATTENTION[stack.attention.value]}"
            )
        )
    if elsewhere:
        shares = ", ".join(f"{key} on {' and '.join(chips)}" for key, chips in elsewhere.items())
        notes.append(
            Decisive(
                f"not calibrated for {chip.name}: peak rates come from the data sheet, and these sustained shares "
                f"were measured on other chips: {shares}"
            )
        )
    return notes


def _memory_note(stack: Stack) -> str:
    """Which of two memories a plan's is: that of tensors, or what a caching allocator holds for them."""
    known = stack.reserved
    if known is None:
        return "memory of tensors is the peak of what is allocated; gaps of the allocator are headroom"
    runs = f" (fitted to {', '.join(known.fitted)})" if known.fitted else ""
    return (
        f"memory is what the allocator reserves: {known.value:g} times activations and working memory{runs}; "
        "no overhead is assumed for weights, gradients and optimizer state, so the sum may be too low if these dominate"
    )


def _timed_collectives(problem: PlanProblem) -> list[str]:
    """Levels of the network with constants of collectives that were timed."""
    level: Network | None = problem.network if problem.devices > 1 else None
    notes = []
    while level is not None:
        if level.timed:
            kinds = ", ".join(sorted(each.kind for each in level.timed))
            beside = ", to which the share link does not apply" if problem.stack.link.assumed else ""
            where = f", on {level.timed_ranks} {level.timed_on} (extrapolated to more ranks)" if level.timed_on else ""
            notes.append(f"collectives over {level.name} with measured times{where}{beside}: {kinds}")
        level = level.inner
    return notes


def _headroom_notes(problem: PlanProblem, result: Result) -> list[str]:
    """What headroom rests on: where a given amount replaces it, whether that is enough."""
    chip, plan = problem.system.chip, whole_plan(result.solution["plan"], "result")
    if problem.machine is not None:
        return [f"no headroom: nothing is known of the software beneath a plan on {chip.name}, a template"]
    if problem.headroom is not None:
        return [] if is_known(chip) else [Decisive(f"headroom is assumed: nothing is known of {chip.name}")]
    memory = plan_costs(replace(problem, headroom_bytes=None), plan).memory
    needed = sum(memory[part] for part in PARTS)
    left = chip.hbm_bytes - sum(result.metrics["memory_bytes"].values())
    if left >= needed:
        return []
    return [
        Decisive(
            f"{memory_text(left)} are left beside the tensors, but driver, context, buffers of collectives and "
            f"allocator need {needed_memory_text(needed)}: without --headroom this plan does not fit"
        )
    ]


def software_notes(problem: PlanProblem, result: Result) -> list[str]:
    """Where no stack was named, which one was taken, why, and the range of those that could be meant."""
    if result.settings.get("stack") is not None or problem.machine is not None:
        return []
    chosen = f"no --stack is named: {problem.stack.name} is taken, {why_usual(problem.system.chip)}"
    ends = software_range(result.metrics.get("stacks", {}))
    return [Decisive(f"{chosen}; {ends}" if ends else chosen)]


def software_range(steps: Mapping[str, float]) -> str:
    """What a plan takes with each stack that could be meant, in words; empty where that is one."""
    if len(steps) < 2:
        return ""
    fastest, slowest = min(steps, key=lambda name: steps[name]), max(steps, key=lambda name: steps[name])
    ends = f"{time_text(steps[fastest])} ({fastest}) to {time_text(steps[slowest])} ({slowest})"
    middle = time_text(statistics.median(steps.values()))
    return f"with the {len(steps)} stacks that could be meant this plan takes from {ends}, {middle} in the middle"


def _idle_notes(problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """What is given of communication that the plan does not have."""
    return [
        Decisive(f"{key}={getattr(plan, key)} has no effect because {reason}")
        for key, reason in idle_settings(problem, plan).items()
    ]
