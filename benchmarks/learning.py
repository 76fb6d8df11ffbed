"""What learning is worth to the partitioner: the study's trials next to the targets.

Everything on ``mcm-36``; the trials are those of ``dse reproduce mcm table2 table3 simulator``, kept in ``--out DIR``
and not recomputed there. Aims:

- learning works: without a prior and from scratch, better than random partitions of the solver, and than its own first
  20, after 300 samples on at least 15 of the 16 test graphs (reference evaluator);
- transfer: without a prior, fine-tuned from the shipped checkpoint, the geometric mean over the test graphs reaches
  0.8 and 0.9 of the best known with at most half the samples that learning from scratch takes;
- the paper: BERT, simulated: ≥ 6.11 % above random and ≥ 5.85 % above annealing after all samples (Table 3), 15 %
  within 20;
- strong baselines: geometric mean over the test graphs and BERT, simulated, after 20, 100 and 600 samples: the policy
  that was pretrained and is fine-tuned at least as good as the best method that does not learn.

A graph counts as better where the geometric mean over the seeds is. All of it takes some hours on one core; fewer
``--samples`` and ``--seeds`` make it shorter.
"""

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from actors.ray_executor import RayExecutor
from dse.reproduce.mcm.study import SAMPLED, Study, StudyBudget
from dse.reproduce.mcm.tables import GREEDY, Curve, Trial, all_shares, at
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.run import Run
from policies.partition.contenders import ablations, contenders
from policies.partition.methods import ask_for_extra

SCRATCH, TUNED = "plain rl", "plain rl fine-tuned"
FIRST = 20
ALIKE = 1e-9
"""Relative difference below which two throughputs are the same."""

Curves = Mapping[Trial, Curve]


def per_graph(curves: Curves, method: str, samples: int) -> dict[str, float]:
    """log throughput on every graph, the mean over the seeds."""
    log_shares: dict[str, list[float]] = {}
    for trial, curve in curves.items():
        if trial.method == method:
            log_shares.setdefault(trial.graph, []).append(-np.log(at(curve, samples)))
    return {graph: statistics.mean(logs) for graph, logs in log_shares.items()}


def learning_works(curves: Curves, samples: int) -> None:
    """From scratch against random partitions and against its own start, graph by graph."""
    end, start, random = (
        per_graph(curves, method, count)
        for method, count in ((SCRATCH, samples), (SCRATCH, FIRST), ("random", samples))
    )
    ratios = {name: {graph: end[graph] - other[graph] for graph in end} for name, other in
              (("random", random), (f"its own first {FIRST}", start))}  # fmt: skip
    for name, each in ratios.items():
        better, worse = (sum(sign * log > ALIKE for log in each.values()) for sign in (1, -1))
        print(
            f"  over {name}: better on {better}, equal on {len(each) - better - worse}, worse on {worse} of {len(each)}"
        )
    for graph in sorted(end, key=lambda graph: ratios["random"][graph]):
        print(f"    {graph:<28}" + "".join(f" {100 * np.expm1(each[graph]):>+8.2f} %" for each in ratios.values()))


def transfer(curves: Curves, samples: int) -> None:
    """Samples to shares of the best that is known, from scratch and fine-tuned."""
    graphs = sorted({trial.graph for trial in curves})
    shares = all_shares(curves, graphs, (SCRATCH, TUNED, "random"), samples)
    # The levels of the best known, and those that learning from scratch itself gets to.
    last = statistics.mean(run[-1] for run in shares[SCRATCH].of_best)
    text = ", ".join(f"{name} {statistics.mean(run[-1] for run in each.of_best):.3f}" for name, each in shares.items())
    print(f"  after {samples} samples, share of the best known: {text}")
    for level in (0.8, 0.9, last, 0.9 * last):
        counts = {name: shares[name].samples_to(level) for name in (SCRATCH, TUNED)}
        print(f"  samples to {level:.3f}: " + "; ".join(f"{name} {_counts(each)}" for name, each in counts.items()))


def _counts(counts: list[int | None]) -> str:
    known = [count for count in counts if count is not None]
    if not known:
        return "never"
    return f"{statistics.mean(known):.0f}" + (
        "" if len(known) == len(counts) else f" ({len(known)} of {len(counts)} seeds)"
    )


def against(curves: Curves, methods: Mapping[str, object], counts: tuple[int, ...]) -> None:
    """Throughput over greedy's, geometric means over the graphs: the best that does not learn, and every method."""
    graphs = sorted({trial.graph for trial in curves})
    best_s = {graph: min(at(c, max(counts)) for t, c in curves.items() if t.graph == graph) for graph in graphs}
    runs = [graph for graph in graphs if np.isfinite(best_s[graph])]
    shares = all_shares(curves, runs, list(methods), max(counts))
    print(f"  {len(runs)} of {len(graphs)} graphs can run; over greedy after {', '.join(map(str, counts))} samples")
    best = [max(_over(shares[name], count) for name in shares if name in SAMPLED) for count in counts]
    print(f"  {'best that does not learn':<26}" + "".join(f" {value:>7.3f}" for value in best))
    for name, share in shares.items():
        if name != GREEDY:
            values = [_over(share, count) for count in counts]
            print(f"  {name:<26}" + "".join(f" {value:>7.3f}" for value in values))


def _over(share, count: int) -> float:
    return statistics.mean(run[count - 1] for run in share.over_greedy)


def paper(curves: Curves, samples: int) -> None:
    """BERT: what learns over random and annealing, in per cent."""
    means = {name: {count: per_graph(curves, name, count) for count in (FIRST, samples)} for name in
             dict.fromkeys(trial.method for trial in curves)}  # fmt: skip
    for name in contenders():
        cells = []
        for count in (FIRST, samples):
            for other in ("random", "anneal"):
                (own,), (theirs,) = (list(means[method][count].values()) for method in (name, other))
                cells.append(_percent(own, theirs))
        print(
            f"  {name:<20} over random, annealing: after {FIRST}: {cells[0]}, {cells[1]}; "
            f"after {samples}: {cells[2]}, {cells[3]}"
        )


def _percent(own: float, theirs: float) -> str:
    if not np.isfinite(own):
        return "cannot run"
    return f"{100 * np.expm1(own - theirs):+.1f} %" if np.isfinite(theirs) else "the other cannot run"


def main() -> None:
    """Make what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/learning"), help="folder of the trials")
    parser.add_argument("--samples", type=int, default=300, help="of Tables 2 and 3")
    parser.add_argument("--seeds", type=int, default=5, help="of Tables 2 and 3")
    parser.add_argument("--simulated-samples", type=int, default=600)
    parser.add_argument("--simulated-seeds", type=int, default=3)
    parser.add_argument("--parts", default="table2,table3,simulator")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    ask_for_extra("benchmarks.learning", "--parts", given.parts)
    given.out.mkdir(parents=True, exist_ok=True)
    budgets = {"simulator": StudyBudget(given.simulated_samples, given.simulated_seeds)}
    with (
        Journal(given.out / "journal.jsonl") as journal,
        RayExecutor(given.workers) if given.workers else InProcessExecutor() as executor,
    ):
        for part in given.parts.split(","):
            budget = budgets.get(part, StudyBudget(given.samples, given.seeds))
            study = Study(contenders(), ablations(), Run(executor, _report, journal=journal), budget)
            curves, failed = study.curves(part)
            print(
                f"\n{part}: {budget.samples} samples, {budget.seeds} seeds" + "".join(f"\n  {each}" for each in failed)
            )
            if part == "table2":
                learning_works(curves, budget.samples)
                transfer(curves, budget.samples)
            elif part == "table3":
                paper(curves, budget.samples)
            else:
                against(curves, {**SAMPLED, **contenders()}, (FIRST, 100, budget.samples))


def _report(phase: str, done: int, total: int) -> None:
    print(f"{phase}: {done} of {total}", flush=True) if done % 50 == 0 else None


if __name__ == "__main__":
    main()
