"""A pretrained policy beside the best search without learning: where windows are drawn, and where walks begin.

The policy is the one in the package that has no prior of its own (``policies/partition/shipped/plain``), pretrained on
66 graphs for ``mcm-36``; throughput, reference evaluator. It has seen none of the graphs here. *Families seen*:
recurrent and Inception-like networks, of which it saw others; *families not seen*: a transformer.

Windows: from the partition that one round of walks finds, windows of chips are reassigned with the effort that the
default method spends on them (:mod:`dse.partition.search.neighbourhoods`). They are drawn by chance, or in proportion
to what the policy says of the operators in them: *surprise*, the mean of −log of the probability of their chips;
*doubt*, the mean entropy of their distributions.

Walks: to the orders that walks begin with without learning come as many as eight valid partitions have: of the
constraint solver (by chance), or of the policy, repaired by the solver.

Effort, steps and draws do not depend on the clock. Each design is next to the same search without learning, with the
same seeds: cost over that, the geometric mean over problems and seeds, in %, with a 95 % bootstrap interval
over problems; below 0 is better. CPU seconds have the network in them, but not the import of PyTorch.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import DATA
from benchmarks.partition_screening import interval
from benchmarks.recording import Record, Results, parser_of
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.formats import read_graph
from dse.partition.options import PartitionOptions, question_of
from dse.partition.problem import Chips, Floats, PartitionProblem
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.order_search import OrderSearch, order_of, order_search
from dse.partition.search.portfolio import WINDOWS_EFFORT
from dse.partition.search.window_model import Chip, Window
from dse.run.executor import InProcessExecutor
from policies.partition.methods import PLAIN, ask_for_extra

PACKAGE = "mcm-36"
"""Whose chips give the operators of the catalogue their latencies."""

LINK_BYTES_PER_S = 20e9
GROUPS = {
    "families seen": [(name, chips) for name in ("lstm10x2", "lstm20x4", "inception") for chips in (24, 36)],
    "families not seen": [("bert-mini-primitive", chips) for chips in (12, 16, 24)],
}
"""Graphs and chips: for most others, on smaller packages too, one round of walks leaves nothing to find."""

PARTITIONS = 8
"""Of the solver or the policy, whose orders walks begin with."""

ROUNDS = 3
"""Of walks."""

ALIKE = 1e-9
"""Relative difference below which two costs are the same."""

WINDOWS, WALKS = "windows by chance", "walks, partitions by chance"
DESIGNS = {"windows by surprise": WINDOWS, "windows by doubt": WINDOWS, "walks, partitions of the policy": WALKS}
"""By name, with what each is compared to."""

COLUMNS = (
    "problems",
    "design",
    "cost over that without learning",
    "better / equal / worse",
    "CPU s",
    "without learning",
)
RECORD = Record("learning_windows", ("cpu", "seeds"), {"main": COLUMNS})


@dataclass(frozen=True)
class Outcome:
    """Of a search with one seed: cost, and CPU seconds."""

    cost_s: float
    cpu_s: float


class Policy:
    """What the pretrained policy says of one graph.

    Attributes:
        log_chances: of every operator on every chip, [N, C].
    """

    def __init__(self, context: SearchContext) -> None:
        from policies.partition.checkpoint import POLICY
        from policies.partition.search import training_of
        from policies.partition.training import PartitionTraining

        checkpoint = POLICY.load(PLAIN)
        settings = checkpoint.settings.on_one_graph()
        self._training: PartitionTraining = training_of(context, settings, checkpoint)
        group = self._training.runner.rollouts(0, seeds_of(context.seed, 0, PARTITIONS))
        self.log_chances: Floats = group.distributions[-1][0].log_probabilities[0].double().numpy()
        self.partitions: Chips = group.repaired

    def surprise(self, windows: Sequence[Window], chip: Chip) -> Floats:
        """How unlikely the chips of the operators in each window are, in nats, [W]."""
        return _means(windows, chip, -self.log_chances[np.arange(len(chip)), chip])

    def doubt(self, windows: Sequence[Window], chip: Chip) -> Floats:
        """The entropy of the operators in each window, in nats, [W]."""
        return _means(windows, chip, -(np.exp(self.log_chances) * self.log_chances).sum(1))


def _means(windows: Sequence[Window], chip: Chip, values: Floats) -> Floats:
    """The mean of the values [N] of the operators in each window, and a little, [W]."""
    counts, sums = (np.concatenate([[0.0], np.cumsum(np.bincount(chip, each))]) for each in (None, values))
    first, end = np.array([each.first for each in windows]), np.array([each.last + 1 for each in windows])
    means: Floats = (sums[end] - sums[first]) / (counts[end] - counts[first])
    return means + 1e-6


def problem_of(name: str, chips: int) -> PartitionProblem:
    """A graph of ``benchmarks/data`` or of the catalogue on so many chips."""
    path = DATA / "partition" / f"{name}.json"
    graph = read_graph(path) if path.exists() else question_of(PartitionOptions(name, package=PACKAGE)).problem.graph
    return PartitionProblem(graph, chips, LINK_BYTES_PER_S)


def walked(context: SearchContext, partitions: Chips) -> SearchResult:
    """Walks from the orders without learning, and from those of ``partitions`` [B, N]."""
    search = OrderSearch(context)
    search.begin_with_own()
    search.begin([order_of(context.problem, chip) for chip in partitions])
    for _ in range(ROUNDS):
        search.round()
    return search.best


def outcomes(problem: PartitionProblem, seed: int) -> Mapping[str, Outcome]:
    """Of every design, and of what each is compared to."""
    context = SearchContext(problem, AnalyticalEvaluator(problem), InProcessExecutor(), seed, PARTITIONS)
    start = order_search(context, rounds=1).chip
    assert start is not None
    begun = replace(context, starts=(start,))
    searches: Mapping[str, Callable[[], SearchResult]] = {
        WINDOWS: lambda: neighbourhood_search(begun, effort=WINDOWS_EFFORT),
        "windows by surprise": lambda: neighbourhood_search(
            begun, effort=WINDOWS_EFFORT, preference=Policy(context).surprise
        ),
        "windows by doubt": lambda: neighbourhood_search(
            begun, effort=WINDOWS_EFFORT, preference=Policy(context).doubt
        ),
        WALKS: lambda: walked(context, Sampler(problem.graph, problem.chips).sample(seeds_of(seed, 0, PARTITIONS))),
        "walks, partitions of the policy": lambda: walked(context, Policy(context).partitions),
    }
    found = {}
    for name, search in searches.items():
        started = time.process_time()
        cost_s = search().cost_s
        found[name] = Outcome(cost_s, time.process_time() - started)
    return found


def compared(results: Results, group: str, design: str, made: Sequence[Sequence[Mapping[str, Outcome]]]) -> None:
    """A row: a design on the problems of a group, by seed."""
    other = DESIGNS[design]
    of_seeds = [[np.log(each[design].cost_s / each[other].cost_s) for each in seeds] for seeds in made]
    logs = np.array(of_seeds).mean(axis=1)
    low, high = interval(logs)
    percent = [f"{100 * np.expm1(value):+.2f}".replace("-", "−") for value in (logs.mean(), low, high)]
    better, worse = int((logs < -ALIKE).sum()), int((logs > ALIKE).sum())
    spent = [statistics.mean(each[name].cpu_s for seeds in made for each in seeds) for name in (design, other)]
    tally = f"{better} / {len(logs) - better - worse} / {worse}"
    cells = (f"{percent[0]} [{percent[1]}, {percent[2]}]", tally, *(f"{each:.1f}" for each in spent))
    results.row("main", group, design, *cells)


def main() -> None:
    """Print the table."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    ask_for_extra("benchmarks.learning_windows", "--seeds", str(given.seeds))
    made: dict[tuple[str, int], list[Mapping[str, Outcome]]] = {}
    for name, chips in (each for problems in GROUPS.values() for each in problems):
        problem = problem_of(name, chips)
        if not made:
            outcomes(problem, 0)  # loads libraries and compiled code
        made[name, chips] = of = [outcomes(problem, seed) for seed in range(given.seeds)]
        costs = {design: statistics.mean(each[design].cost_s for each in of) for design in of[0]}
        shown = (f"{design}: {1e6 * cost:.2f} µs" for design, cost in costs.items())
        print(name, len(problem.graph), chips, *shown, flush=True)
    for group, problems in GROUPS.items():
        for design in DESIGNS:
            compared(results, group, design, [made[each] for each in problems])
    results.figure("seeds", str(given.seeds))
    results.figure("cpu", f"{time.process_time() / 60:.0f} CPU minutes")
    results.save(given.record)


if __name__ == "__main__":
    main()
