"""Both evaluators of multi-chip partitions on 2,000 random partitions of BERT, next to section 5.4 of the paper.

The paper: Pearson's R of 0.91 between analytical model and hardware, 13.5 % of the partitions cannot run. Both numbers
are calibrated here (memory and compile effect of mcm-36), so the table also shows how much they depend on the draw, and
R without the compile effect. Speed, in the same run, on one core, batched: at least 50,000 partitions/s for the
analytical evaluator and 1,000 for the simulator.
"""

import sys
import time
from pathlib import Path

from benchmarks.recording import Record, Results, parser_of

RECORD = Record(
    "partition_calibration",
    ("correlation", "cannot_run", "other_samples"),
    {"main": ("", "paper", "ours", "other samples", "no compile effect")},
)
REPEATS = 3
TARGETS = {"analytical": 50_000, "simulator": 1_000}


def draw(context, calibration, path) -> None:
    """Figure 7: run times over their minima, as points."""
    from matplotlib.figure import Figure

    predicted, simulated = calibration.normalised
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(predicted, simulated, s=6, alpha=0.5, linewidths=0)
    ends = [1.0, min(predicted.max(), simulated.max())]
    axes.plot(ends, ends, color="0.6", linewidth=1, linestyle="--", label="equal")
    axes.set_xlabel("predicted run time, over its minimum (reference evaluator)")
    axes.set_ylabel("simulated run time, over its minimum")
    axes.set_title(
        f"{context.graph.name} on {context.package.name}: R = {calibration.correlation:.3f}, "
        f"{calibration.invalid_percent:.1f} % of {len(calibration.predicted_s):,} cannot run",
        fontsize=10,
    )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def speed(problem, package, chips) -> bool:
    """Partitions a second of each evaluator, warm, best of some; whether both are as fast as they should be."""
    from dse.partition.evaluators.analytical import AnalyticalEvaluator
    from dse.partition.evaluators.simulator import SimulatorEvaluator

    evaluators = {"analytical": AnalyticalEvaluator(problem), "simulator": SimulatorEvaluator(problem, package)}
    print(f"\n{'evaluator':<12} {'partitions/s':>13} {'target':>8}")
    met = True
    for name, evaluator in evaluators.items():
        seconds = []
        for _ in range(REPEATS):
            begun = time.process_time()
            evaluator.costs(chips)
            seconds.append(time.process_time() - begun)
        rate = len(chips) / min(seconds)
        met &= rate >= TARGETS[name]
        print(f"{name:<12} {rate:>13,.0f} {TARGETS[name]:>8,}  {'met' if rate >= TARGETS[name] else 'MISSED'}")
    return met


def main() -> int:
    """Prints the tables and draws the plot."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("graph", nargs="?", help="a dse.graph/1 file (default: the BERT of `dse reproduce mcm`)")
    parser.add_argument("--package", default="mcm-36")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", help="where to write the scatter plot (.png, .pdf, .svg)")
    arguments = parser.parse_args()
    if arguments.graph is not None and not Path(arguments.graph).is_file():
        print(f"no graph at {arguments.graph}; name one")
        return 2

    from dse.partition.formats import read_graph
    from dse.reproduce.mcm.bert import paper_bert
    from dse.reproduce.mcm.figure7 import Context, calibrate, figure7, problem_of, random_partitions
    from hardware.packages import package

    chosen = package(arguments.package)
    graph = paper_bert() if arguments.graph is None else read_graph(arguments.graph)
    context = Context(graph, chosen, arguments.samples, arguments.seed)
    section = figure7(context)
    for note in section.notes:
        print(note)
    (table,) = section.tables
    for row in table.rows:
        results.row("main", *row)
    shown = {name: cells for name, *cells in table.rows}
    results.figure("correlation", shown["Pearson's R"][1])
    _, cannot_run, of_others, _ = shown["partitions that cannot run, %"]
    results.figure("cannot_run", f"{cannot_run} %")
    results.figure("other_samples", f"{of_others} %")
    results.save(arguments.record)
    problem, chips = problem_of(context), random_partitions(context)
    if arguments.plot:
        draw(context, calibrate(problem, chosen, chips), arguments.plot)
        print(f"\nplot: {arguments.plot}")
    return 0 if speed(problem, chosen, chips) else 1


if __name__ == "__main__":
    sys.exit(main())
