"""Random small spaces of chips, and their best chip by pricing every plan on every one of them."""

import numpy as np
import yaml

from dse.codesign.chips.problem import ChipProblem, Limits, Links
from dse.codesign.objective import Objective
from dse.plan.evaluate import memory_needed, step_seconds
from dse.plan.model_sources import transformer
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import template_stack
from dse.plan.template_kernels import TemplateKernels
from hardware.chip_space import ChipSpace, chip_space, least_designs, with_sram
from hardware.cost_model import cost_model
from hardware.network_specs import network
from hardware.silicon.tables import nodes
from hardware.units import KIB, MIB, bytes_from_gib

OBJECTIVES = ("throughput", "per-watt", "per-mm2", "per-dollar", "per-price", "per-kg")


SMALL = {
    "nodes": [5, 3],
    "arrays": [[64, 64], [256, 256]],
    "units": [8, 32],
    "lanes": [128, 512],
    "local_kib": [512],
    "shared_mib": [48, 96],
    "formats": ["bf16", "fp8"],
    "clock_hz": [1.2e9, 1.6e9],
    "dies": [1, 2],
}


def space_file(folder, **changes):
    """A small space; ``changes`` are values of axes, or other entries as they are."""
    document = chip_space("chips-2026").model_dump(mode="json", exclude_none=True)
    document["name"] = "small"
    document["memories"] = [{"kind": "hbm3e", "stacks": [4, 6], "gb": [24], "source": "a test"}]
    document["scale_up"]["bytes_per_s"]["values"] = [450e9, 900e9]
    document["scale_up"]["domains"]["values"] = [8]
    for name, value in (SMALL | changes).items():
        if isinstance(document.get(name), dict) and not isinstance(value, dict):
            document[name]["values"] = value
        else:
            document[name] = value
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def random_problem(seed, per, models=("llama3-8b",)):
    """A space of at most 2,000 points with random limits, for models on eight packages with few plans."""
    draw = np.random.default_rng(seed)
    document = chip_space("chips-2026").model_dump(mode="json")

    def some(values, most):
        count = int(draw.integers(1, min(most, len(values)) + 1))
        return [values[place] for place in sorted(draw.choice(len(values), count, replace=False).tolist())]

    for axis, most in (("nodes", 2), ("arrays", 3), ("units", 3), ("lanes", 2), ("dies", 2), ("local_kib", 2)):
        document[axis]["values"] = some(document[axis]["values"], most)
    document["shared_mib"]["values"] = some(document["shared_mib"]["values"][:6], 2)
    highest = max(nodes()[node].clock for node in document["nodes"]["values"]) * 1e9
    clocks = [each for each in document["clock_hz"]["values"] if each <= highest]
    document["clock_hz"]["values"] = some(clocks, 2)
    document["scale_up"]["bytes_per_s"]["values"] = some(document["scale_up"]["bytes_per_s"]["values"], 2)
    document["scale_up"]["domains"]["values"] = some([2, 4, 8], 1)
    memories = some(document["memories"][:5], 2)
    for each in memories:
        most = 6 * max(document["dies"]["values"])
        each["gb"] = some(each["gb"], 1)
        each["stacks"] = some(sorted({min(stacks, most) for stacks in each["stacks"]}), 2)
    document["memories"] = memories
    scale_out = network("infiniband-xdr")
    return ChipProblem(
        models=tuple((transformer(each), 2048) for each in models),
        objective=Objective(per),
        space=ChipSpace.model_validate(document),
        limits=Limits(float(draw.choice([400.0, 1000.0, np.inf])), float(draw.choice([4_000.0, np.inf]))),
        cost_model=cost_model("consistent"),
        scale_out=scale_out,
        accelerators=8,
        global_batch=16,
        stack=template_stack(scale_out, False, True),
        fixed_plan=(
            ("context", 1),
            *((("recompute", "none"),) if seed % 2 else ()),
            ("sequence_parallel", False),
            ("tensor", int(draw.choice([1, 2, 4]))),
        ),
        precisions=tuple(some(["bf16", "fp8"], 2)),
    )


def best_of_all(problem, within=0.0):
    """The best score of every chip with every plan, and the cores, clocks, memories, links and precisions near it."""
    space, scores = problem.space, []
    cores = with_sram(space, least_designs(space))
    sides = cores.width + cores.depth
    holds = (cores.local_kib * KIB >= 4 * sides) & (cores.shared_mib * MIB >= 4 * (cores.width * cores.depth + sides))
    heads = max(model.key_width + model.context_width for model, _ in problem.models)
    long, short = np.maximum(cores.width, cores.depth), np.minimum(cores.width, cores.depth)
    holds &= cores.local_kib * KIB >= 2 * ((long + 2 * short) * heads + long * short)
    cores = cores.take(np.flatnonzero(holds))
    if not len(cores):
        return 0.0, 0
    for memory in space.choices:
        for domain in space.scale_up.domains.values:
            for rate in space.scale_up.bytes_per_s.values:
                for clock_hz in space.clock_hz.values:
                    links = Links(rate, domain)
                    for dies in space.dies.values:
                        machines = problem.machines(cores, clock_hz, memory, dies)
                        means = _means(problem, machines, memory, links)
                        for precision in problem.precisions:
                            at = memory, links, clock_hz, precision, dies
                            scores.append(means[precision] / _divisor(problem, cores, *at))
    every = np.concatenate(scores)
    best = float(every.max())
    return best, int(np.count_nonzero(every >= best * (1 - within) * (1 - 1e-9))) if best > 0 else 0


def _divisor(problem, cores, memory, links, clock_hz, precision, dies):
    least = np.full(len(cores), np.inf)
    for how in problem.realisations:
        if how.dies != dies or nodes()[how.node].clock * 1e9 < clock_hz * (1 - 1e-9):
            continue
        made = problem.silicon(cores, how, memory, links, precision)
        fits = made.fits & (made.usd <= problem.limits.usd) & (made.watts(clock_hz) <= problem.limits.power_w)
        least = np.minimum(least, np.where(fits, problem.divisor(made, clock_hz), np.inf))
    return least


def _means(problem, machines, memory, links):
    """The mean of throughputs by precision of the chip, each model with the fastest plan of any that the chip has."""
    fastest = {}
    for precision in problem.precisions:
        rows = []
        for number in range(len(problem.models)):
            asked = problem.plan_problem(number, precision, links, machines.one(0), memory)
            plans = all_plans(asked)
            plans = plans.part(memory_needed(asked, plans) <= bytes_from_gib(memory.total_gb)) if plans.count else plans
            if plans.count:
                rows.append(step_seconds(asked, plans, TemplateKernels(asked, machines)).min(axis=0))
            else:
                rows.append(np.full(len(machines), np.inf))
        fastest[precision] = np.array(rows)
    means = {}
    for precision in problem.precisions:
        formats = problem.formats_of(precision)
        possible = [fastest[each] for each in problem.precisions if problem.formats_of(each) <= formats]
        means[precision] = problem.objective.score(problem.global_batch / np.minimum.reduce(possible))
    return means
