"""What the packaged policies of partitions are worth on networks with attention, a family that none has learned from.

Each policy draws :data:`SAMPLES` partitions onto ``mcm-36`` without learning, under the evaluator that it was trained
with; beside it the method that does the same without a network. Throughput is over greedy's: geometric means over
graphs and seeds, with 90 % intervals from a bootstrap over graphs. With ``--annotate``, the policies' cards say it
first.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.partition.options import EvaluatorName
from dse.reproduce.mcm.study import SAMPLED, Trials
from dse.reproduce.mcm.tables import GREEDY, Trial, at
from policies.learning.scores import geometric_mean
from policies.partition.checkpoint import POLICY
from policies.partition.contenders import contenders
from policies.partition.methods import PLAIN, REFINE

GRAPHS = ("bert-mini-primitive", "bert-medium-primitive", "bert-base-primitive")
"""Networks of the catalogue that have attention; the 66 that policies learn from have none."""

SEEDS, SAMPLES = 2, 20

RECORD = Record("partition_unseen", ("graphs", "seeds"), {"main": ("policy", "evaluator", "policy's", "without it")})


@dataclass(frozen=True)
class Judged:
    """A policy, its evaluator, and the methods with and without it."""

    name: str
    evaluator: EvaluatorName
    method: str
    without: str


POLICIES = {
    PLAIN: Judged("plain", "analytical", "plain rl zero-shot", "random"),
    REFINE: Judged("refine", "simulator", "refine zero-shot", "refine"),
}
"""By the folder of their checkpoint."""


def over_greedy(trials: Trials, graph: str, evaluator: EvaluatorName, method: str) -> float:
    """Throughput over greedy's after :data:`SAMPLES` partitions, geometric mean over the seeds; 0 if none can run."""

    def best_s(name: str, seed: int) -> float:
        return at(trials(Trial(graph, evaluator, name, seed, SAMPLES)), SAMPLES)

    return geometric_mean([best_s(GREEDY, 0) / best_s(method, seed) for seed in range(SEEDS)])


def with_interval(values: list[float], seed: int = 0) -> list[float]:
    """The geometric mean over graphs, and the limits of its 90 % interval."""
    drawn = np.random.default_rng(seed).choice(values, (10_000, len(values)))
    with np.errstate(divide="ignore"):
        low, high = np.quantile(np.exp(np.log(drawn).mean(axis=1)), (0.05, 0.95))
    return [geometric_mean(values), float(low), float(high)]


def main() -> None:
    """One row for each policy."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--annotate", action="store_true", help="write it into the cards of the policies")
    arguments = parser.parse_args()
    trials = Trials({**SAMPLED, **contenders()})
    for folder, each in POLICIES.items():
        cells, stated = [], {}
        for name in (each.method, each.without):
            values = {graph: over_greedy(trials, graph, each.evaluator, name) for graph in GRAPHS}
            mean, low, high = with_interval(list(values.values()))
            cells.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
            stated["policy" if name == each.method else "without"] = {"mean": [mean, low, high], **values}
        if arguments.annotate:
            POLICY.annotate(folder, {"out_of_distribution": {"throughput_over_greedy": stated}})
        results.row("main", each.name, each.evaluator, *cells)
    results.figure("graphs", len(GRAPHS))
    results.figure("seeds", SEEDS)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
