"""Random small spaces of chips, and their best chip by pricing every plan on every one of them."""

from dataclasses import replace
from itertools import count, product

import numpy as np
import yaml

from dse.codesign.chips.front_figures import FIGURES
from dse.codesign.chips.problem import ChipProblem, Limits, Links
from dse.codesign.objective import Objective, Per
from dse.plan.evaluate import memory_needed, step_seconds
from dse.plan.model_sources import transformer
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import template_stack
from dse.plan.template_kernels import TemplateKernels
from hardware.chip_space import ChipSpace, chip_space, least_designs, with_sram
from hardware.cost_model import cost_model
from hardware.network_specs import network
from hardware.silicon.tables import nodes
from hardware.spec_fields import Quantity
from hardware.units import KIB, MIB, bytes_from_gib

OBJECTIVES: tuple[Per, ...] = ("throughput", "per-watt", "per-mm2", "per-dollar", "per-price", "per-kg")


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


def stops_at(asked):
    """A stop signal that gives a reason from the call of that number on."""
    asks = count(1)
    return lambda: "enough" if next(asks) >= asked else None


def random_problem(seed: int, per: Per, models: tuple[str, ...] = ("llama3-8b",)) -> ChipProblem:
    """A space of at most 2,000 points with limits among what its chips take, for models on eight packages.

    Plans are few, so that every one can be priced on every chip. One space in ten may have no chip at all.
    """
    draw = np.random.default_rng(seed)
    may_be_empty = draw.random() < 0.1
    scale_out = network("infiniband-xdr")
    fixed = (
        ("context", 1),
        *((("recompute", "none"),) if seed % 2 else ()),
        ("sequence_parallel", False),
        ("tensor", int(draw.choice([1, 2, 4]))),
    )
    while True:
        problem = ChipProblem(
            models=tuple((transformer(each), 2048) for each in models),
            objective=Objective(per),
            space=_random_space(draw),
            limits=Limits(),
            cost_model=cost_model("consistent"),
            scale_out=scale_out,
            accelerators=8,
            global_batch=16,
            stack=template_stack(scale_out, False, True),
            fixed_plan=fixed,
            precisions=tuple(_some(draw, ["bf16", "fp8"], 2)),
        )
        problem = _limited(problem, draw)
        if may_be_empty or _taken(problem).shape[1]:
            return problem


def _some(draw, values, most):
    count = int(draw.integers(1, min(most, len(values)) + 1))
    return [values[place] for place in sorted(draw.choice(len(values), count, replace=False).tolist())]


def _random_space(draw):
    document = chip_space("chips-2026").model_dump(mode="json")
    for axis, most in (("nodes", 2), ("arrays", 3), ("units", 3), ("lanes", 2), ("dies", 2), ("local_kib", 2)):
        document[axis]["values"] = _some(draw, document[axis]["values"], most)
    document["shared_mib"]["values"] = _some(draw, document["shared_mib"]["values"][:6], 2)
    highest = max(nodes()[node].clock for node in document["nodes"]["values"]) * 1e9
    clocks = [each for each in document["clock_hz"]["values"] if each <= highest]
    document["clock_hz"]["values"] = _some(draw, clocks, 2)
    document["scale_up"]["bytes_per_s"]["values"] = _some(draw, document["scale_up"]["bytes_per_s"]["values"], 2)
    document["scale_up"]["domains"]["values"] = _some(draw, [2, 4, 8], 1)
    memories = _some(draw, document["memories"][:5], 2)
    for each in memories:
        most = 6 * max(document["dies"]["values"])
        each["gb"] = _some(draw, each["gb"], 1)
        each["stacks"] = _some(draw, sorted({min(stacks, most) for stacks in each["stacks"]}), 2)
    document["memories"] = memories
    return ChipSpace.model_validate(document)


def _limited(problem, draw):
    """With limits of area, power and cost, each of which half of the problems have."""
    watts, usd, area = _taken(problem)
    if not len(watts):
        return problem
    limits = [float(np.quantile(each, draw.random())) if draw.random() < 0.5 else np.inf for each in (watts, usd)]
    space = problem.space
    if draw.random() < 0.5:
        largest = Quantity(value=float(np.quantile(area, draw.random())), source="drawn")
        space = space.model_copy(update={"area_mm2": largest})
    return replace(problem, space=space, limits=Limits(*limits))


def _taken(problem):
    """Watts, dollars and mm² of a die of every chip within the limits, [3, N]."""
    space, found = problem.space, [np.empty((3, 0))]
    cores = _whole(problem)
    if len(cores):
        rates, clocks = space.scale_up.bytes_per_s.values, space.clock_hz.values
        for memory, rate, clock_hz, how in product(space.choices, rates, clocks, problem.realisations):
            if nodes()[how.node].clock * 1e9 >= clock_hz * (1 - 1e-9):
                made = problem.silicon(cores, how, memory, Links(rate, 2), problem.precisions[-1])
                watts = made.watts(clock_hz)
                fits = made.fits & (made.usd <= problem.limits.usd) & (watts <= problem.limits.power_w)
                found.append(np.stack([watts, made.usd, made.die_mm2])[:, fits])
    return np.concatenate(found, axis=1)


def best_of_all(problem: ChipProblem, within: float = 0.0) -> tuple[float, int]:
    """The best score of every chip with every plan, and the cores, clocks, memories, links and precisions near it."""
    scores = []
    for means, clock_hz, silicon in _priced(problem):
        divisors = [np.where(fits, problem.divisor(made, clock_hz), np.inf) for made, fits in silicon]
        scores.append(means / np.minimum.reduce([np.full(len(means), np.inf), *divisors]))
    every = np.concatenate(scores or [np.zeros(1)])
    best = float(every.max())
    return best, int(np.count_nonzero(every >= best * (1 - within) * (1 - 1e-9))) if best > 0 else 0


def values_of_all(problem):
    """The figures of the front of every chip within the limits, all the better the more they are, [N, F]."""
    found, figures = [np.empty((0, len(problem.pareto)))], [FIGURES[each] for each in problem.pareto]
    for means, clock_hz, silicon in _priced(problem):
        for made, fits in silicon:
            columns = [
                (1.0 if each.per is None else means) / (each.taken(problem, made, clock_hz) * np.ones(len(means)))
                for each in figures
            ]
            found.append(np.stack(columns, axis=1)[fits & (means > 0)])
    return np.concatenate(found)


def _whole(problem):
    """All cores whose SRAM holds what their arrays work on."""
    cores = with_sram(problem.space, least_designs(problem.space))
    sides = cores.width + cores.depth
    holds = (cores.local_kib * KIB >= 4 * sides) & (cores.shared_mib * MIB >= 4 * (cores.width * cores.depth + sides))
    heads = max(model.key_width + model.context_width for model, _ in problem.models)
    long, short = np.maximum(cores.width, cores.depth), np.minimum(cores.width, cores.depth)
    holds &= cores.local_kib * KIB >= 2 * ((long + 2 * short) * heads + long * short)
    return cores.take(np.flatnonzero(holds))


def _priced(problem):
    """The means of throughputs of all cores for each clock, memory, link rate and precision; what they take by node."""
    space = problem.space
    cores = _whole(problem)
    if not len(cores):
        return
    for memory, domain, rate, clock_hz, dies in product(
        space.choices,
        space.scale_up.domains.values,
        space.scale_up.bytes_per_s.values,
        space.clock_hz.values,
        space.dies.values,
    ):
        links = Links(rate, domain)
        means = _means(problem, problem.machines(cores, clock_hz, memory, dies), memory, links)
        for precision in problem.precisions:
            silicon = []
            for how in problem.realisations:
                if how.dies == dies and nodes()[how.node].clock * 1e9 >= clock_hz * (1 - 1e-9):
                    made = problem.silicon(cores, how, memory, links, precision)
                    fits = made.fits & (made.usd <= problem.limits.usd)
                    silicon.append((made, fits & (made.watts(clock_hz) <= problem.limits.power_w)))
            yield means[precision], clock_hz, silicon


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
