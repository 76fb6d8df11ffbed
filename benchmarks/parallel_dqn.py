"""Learned pipelines next to the exact ones: how far from the optimum, after how many plans and CPU seconds.

    python -m benchmarks.parallel_dqn [--steps bert-48,t5-6] [--configurations ABC] [--seeds 5] [--microbatches 4|16]
        [--inference] [--checkpoint DIR] [--record]

Every row of the paper's Table 7 (batches of 64 in microbatches of 16, or in 16 microbatches; ``near`` device cuts,
V100s as DAPPLE measured them). ``dqn`` is what ``dse parallel --method dqn`` does: ``dqn alone`` and the plan of equal
computing. ``dqn, not improved`` is the training of both, whose plans and seconds count in each; ``dqn, paper`` is a
training in the paper's form. Because ``dqn`` is two trainings, random plans and annealing are two searches. ``policy``
is the best of 50 plans of the pretrained policy (the one that comes along, or that of ``--checkpoint``), ``greedy`` the
plan of equal computing, and ``inference``, what ``dse parallel --method inference`` does, the best of both and of 50
random plans. Random plans and annealing begin with as many plans as ``dqn, not improved``, or as ``policy, not
improved``; those ``and greedy`` have the plan of equal computing, too, where annealing begins. The shortest plans of
each but ``dqn, paper`` and those that are ``not improved`` are improved cut by cut, as is the plan of equal computing
wherever it is among them. That prices many more plans, not equally many for all methods: ``plans`` and ``CPU s`` have
everything that a method prices and takes. ``every coarse plan``, where they are at most a million, is the best that
learning on the 128 points can find, without improvement.

``--inference`` leaves out what trains on the step itself; ``--record`` writes what is left then. At the end all rows of
a method are taken together. The policy saw generated pipelines alone, so every step is one that it never saw; the
targets are 2 % and 1 s.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import DeviceCutting, PipelineProblem
from dse.reproduce.automap.models import PIPELINED
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from policies.learning.checkpoint import chosen_folder
from policies.parallel.extra import ask_for_extra
from policies.parallel.pipeline.contenders import annealed_as_it_is, drawn_plans, even, even_as_it_is
from policies.parallel.pipeline.improvement import improve, improved
from policies.parallel.pipeline.inference import Coarse, coarse
from policies.parallel.pipeline.methods import SHIPPED
from policies.parallel.pipeline.online import SHORTEST, STARTS, Best
from policies.parallel.pipeline.policy import INTERACTIONS, PIPELINE_POLICY, Policy
from policies.parallel.pipeline.search import trained_as_published, trainings

CUTTING: DeviceCutting = "near"

TARGET = 0.02
"""Of inference, over the optimum."""

OBJECTIVES = {4: "length", 16: "length 16"}
"""By the microbatches of a batch of 64."""


COLUMNS = {
    "policy as it is": "policy, not improved",
    "random as they are": "random, not improved, as policy",
    "annealing as it is": "annealing, not improved, as policy",
    "policy alone": "policy",
    "random": "random, as policy",
    "annealing": "annealing, as policy",
    "greedy": "greedy",
    "**inference**": "inference",
    "random and greedy": "random and greedy",
    "annealing and greedy": "annealing and greedy",
}
"""Of the recorded table, with the method of each."""

RECORD = Record("parallel_inference", ("within", "as_it_is", "cpu_s"), {"main": ("step", *COLUMNS)})

_Search = Callable[[Coarse, int, tuple[int, ...]], Best]
"""So many plans of a problem, with a seed."""


class Row(NamedTuple):
    """A method on a problem: excess over the optimum by seed; plans and CPU seconds, medians."""

    method: str
    excess: tuple[float, ...]
    evaluations: float
    seconds: float


def measured(
    name: str,
    problem: PipelineProblem,
    best_s: float,
    search: Callable[[int], Best],
    seeds: int,
    spent_s: Sequence[float] = (),
) -> Row:
    """The row of a search, a function of the seed.

    Args:
        name: of the method.
        problem: what is cut.
        best_s: the optimum.
        search: made for each seed.
        seeds: how many.
        spent_s: CPU seconds of what each search continues from, by seed.
    """
    excess, plans, seconds = [], [], []
    for seed in range(seeds):
        started = time.process_time()
        best = search(seed)
        seconds.append(time.process_time() - started + (spent_s[seed] if spent_s else 0.0))
        plans.append(best.evaluations)
        assert best.plan is not None
        assert not faults(problem, best.plan)
        excess.append(length(problem, best.plan).length_s / best_s - 1)
    return Row(name, tuple(excess), statistics.median(plans), statistics.median(seconds))


def every_plan(seen: Coarse, most: int = 10**6) -> Best | None:
    """The best of all legal plans of the coarse problem, before refinement: what no search of it can beat.

    Returns:
        None where they may be more than ``most``.
    """
    problem = seen.pricing.problem
    stages, variables = problem.stages, problem.profile.variables
    center = problem.devices * np.arange(1, stages) / stages
    devices = np.arange(1, problem.devices)
    near = [devices[np.abs(devices - each) <= seen.radius].tolist() for each in center]
    if math.comb(len(seen.cuts), stages - 1) * math.prod(map(len, near)) > most:
        return None
    best = Best()
    chosen = np.array(list(itertools.combinations(seen.cuts.tolist(), stages - 1)), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(variables)])
    edges = before[np.pad(chosen, ((0, 0), (1, 1)), constant_values=((0, 0), (0, len(variables))))]
    cuts = chosen[(np.diff(edges, axis=1) > 0).all(1)]
    for ranks in itertools.product(*near):
        if len(cuts) and all(one < other for one, other in itertools.pairwise(ranks)):
            device_cuts = np.tile(ranks, (len(cuts), 1))
            best.take(cuts, device_cuts, seen.pricing.prices(cuts, device_cuts))
    return best


def rows(problem: PipelineProblem, policy: Policy, seeds: int, is_trained: bool) -> Iterator[Row]:
    """All methods on a problem; those that train on it only if ``is_trained``."""
    context = PipelineContext(problem, CUTTING)
    started = time.process_time()
    optimum = exact(context)
    yield Row("exact", (0.0,), optimum.nodes, time.process_time() - started)
    seen = coarse(problem, CUTTING)

    def row(name: str, search: Callable[[int], Best], count: int = seeds, spent_s: Sequence[float] = ()) -> Row:
        return measured(name, problem, optimum.length_s, search, count, spent_s)

    def beside(of: str, counts: Sequence[Sequence[int]], starts: int) -> Iterator[Row]:
        """``counts``: of the plans of each search, by seed; ``starts``: how many plans of each are improved."""
        for name, search in (("random", drawn_plans), ("annealing", annealed_as_it_is)):
            searches = partial(_searches, search, seen, counts)
            yield row(f"{name}, as {of}", lambda seed, searches=searches: improved(seen, searches(seed), starts))
            yield row(f"{name}, not improved, as {of}", lambda seed, searches=searches: Best.of_all(searches(seed)))

    if is_trained:
        started = time.process_time()
        every = every_plan(seen)
        if every is not None:
            excess = (every.length_s / optimum.length_s - 1,)
            yield Row("every coarse plan", excess, every.evaluations, time.process_time() - started)
        made, spent_s = list[tuple[Best, ...]](), list[float]()

        def training(seed: int) -> Best:
            started = time.process_time()
            made.append(trainings(PipelineContext(problem, CUTTING, seed)))
            spent_s.append(time.process_time() - started)
            return Best.of_all(made[seed])

        yield row("dqn, not improved", training)
        yield row("dqn alone", lambda seed: _improved(seen, *made[seed]), spent_s=spent_s)
        yield row("dqn", lambda seed: _improved(seen, *made[seed]).with_other(even(seen)), spent_s=spent_s)
        yield row("dqn, paper", lambda seed: trained_as_published(PipelineContext(problem, CUTTING, seed)))
        yield from beside("dqn", [[each.evaluations for each in both] for both in made], SHORTEST)
    if policy.machine_of(problem) is not None:
        yield row("inference", lambda seed: policy.answer(problem, CUTTING, seed))
        yield row("policy", lambda seed: _of_policy_alone(policy, problem, seed))
        yield row("policy, not improved", lambda seed: policy.plans(problem, CUTTING, seed)[1])
    yield row(
        "random and greedy", lambda seed: _improved(seen, drawn_plans(seen, INTERACTIONS, seed)).with_other(even(seen))
    )
    yield row("annealing and greedy", lambda seed: _annealed_from_greedy(seen, seed))
    yield from beside("policy", [[INTERACTIONS]] * seeds, STARTS)
    yield row("greedy", lambda _seed: even(seen), 1)


def _searches(search: _Search, seen: Coarse, counts: Sequence[Sequence[int]], seed: int) -> list[Best]:
    """With so many plans each, of random choices of their own, as they are."""
    return [search(seen, count, (seed, number)) for number, count in enumerate(counts[seed])]


def _annealed_from_greedy(seen: Coarse, seed: int) -> Best:
    plans = annealed_as_it_is(seen, INTERACTIONS + 1, seed, even_as_it_is(seen))
    return _improved(seen, plans).with_other(even(seen))


def _of_policy_alone(policy: Policy, problem: PipelineProblem, seed: int) -> Best:
    seen, best = policy.plans(problem, CUTTING, seed)
    improve(seen, best)
    return best


def _improved(seen: Coarse, *searches: Best) -> Best:
    """Copies of them, each improved by itself."""
    return improved(seen, [each.with_other(Best()) for each in searches])


def main() -> None:
    """Print a table for each step and configuration."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--steps", default=",".join(PIPELINED))
    parser.add_argument("--configurations", default="ABC")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--microbatches", type=int, choices=OBJECTIVES, default=4)
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--checkpoint", type=Path, default=SHIPPED)
    given = parser.parse_args()
    ask_for_extra("benchmarks.parallel_dqn", "--steps", given.steps)
    policy = Policy(PIPELINE_POLICY.load(chosen_folder(given.checkpoint)))
    print(f"{'step':8} {'':1} {'method':34} {'median':>8} {'worst':>8} {'plans':>7} {'CPU s':>7}")
    made: dict[tuple[str, str], dict[str, Row]] = {}
    for step, configuration in itertools.product(given.steps.split(","), given.configurations):
        objective = OBJECTIVES[given.microbatches]
        problem = problem_of(PipelineTrial(step, configuration, objective, CUTTING, "v100", "dapple"))
        of = made[step, configuration] = {}
        for row in rows(problem, policy, given.seeds, not given.inference):
            of[row.method] = row
            _print(step, configuration, row.method, row.excess, row.evaluations, row.seconds)
    for method in dict.fromkeys(method for of in made.values() for method in of):
        every = [of[method] for of in made.values() if method in of]
        excess = [each for row in every for each in row.excess]
        _print("all", "", method, excess, *_means(every))
        mean = statistics.geometric_mean(1 + each for each in excess) - 1
        print(f"{'':10} {'':34} mean {mean:.2%}; {_near(excess)} within {TARGET:.0%}", flush=True)
    if given.record:
        _record(results, made)
    results.save(given.record)


def _record(results: Results, made: Mapping[tuple[str, str], Mapping[str, Row]]) -> None:
    """The table of what does not train on the step."""
    titles = {"t5-base": "T5-base", "t5-6": "T5 6+6"}
    for (step, configuration), of in made.items():
        cells = (_cell(of[method].excess) for method in COLUMNS.values())
        results.row("main", f"{titles.get(step, PIPELINED[step])}, {configuration}", *cells)
    columns = {method: [of[method] for of in made.values()] for method in COLUMNS.values()}
    excess = {method: [each for row in every for each in row.excess] for method, every in columns.items()}
    means = {method: _means(every) for method, every in columns.items()}
    results.row("main", "mean of all", *(_percent(statistics.mean(each)) for each in excess.values()))
    results.row("main", f"within {TARGET:.0%}".replace("%", " %"), *map(_near, excess.values()))
    results.row("main", "plans, mean", *(f"{plans:,.0f}" for plans, _ in means.values()))
    results.row("main", "CPU s, mean", *(f"{seconds:.2f}" for _, seconds in means.values()))
    results.figure("within", _near(excess["inference"]))
    results.figure("as_it_is", _near(excess["policy, not improved"]))
    seconds = [row.seconds for row in columns["inference"]]
    results.figure("cpu_s", f"{min(seconds):.2f} to {max(seconds):.2f} CPU seconds")


def _means(every: Sequence[Row]) -> tuple[float, float]:
    """Plans and CPU seconds."""
    return statistics.mean(row.evaluations for row in every), statistics.mean(row.seconds for row in every)


def _near(excess: Sequence[float]) -> str:
    return f"{sum(each <= TARGET for each in excess)} of {len(excess)}"


def _cell(excess: Sequence[float]) -> str:
    """Median and worst, where they differ."""
    middle, worst = (_percent(each) for each in (statistics.median(excess), max(excess)))
    return middle if middle == worst else f"{middle} / {worst}"


def _percent(excess: float) -> str:
    return f"{max(0.0, 100 * excess):.3g}" if excess >= 5e-4 else "0"


def _print(step: str, configuration: str, method: str, excess: Sequence[float], plans: float, seconds: float) -> None:
    numbers = f"{statistics.median(excess):8.2%} {max(excess):8.2%} {plans:7.0f} {seconds:7.2f}"
    print(f"{step:8} {configuration:1} {method:34} {numbers}", flush=True)


if __name__ == "__main__":
    main()
