"""Layers and whole models on a dataflow fabric, end to end: cut if they do not fit, placed, routed, simulated, checked.

The throughput is shown next to the least time with these pieces (however they are placed) and with any pieces, as gaps;
CPU seconds are those of posing the problem (the cut), of the answer, and of its check. The model's own layers that are
alike give the same answer, so one of each kind represents all.
"""

import argparse
import shlex
import sys
import time
from typing import Any

LAYERS = ("bert-large:layer3", "gpt2-xl:layer3")
MODELS = ("bert-large", "gpt2-xl")
HEAD = (
    "graph",
    "pass",
    "fabric",
    "turns",
    "pieces",
    "samples/s",
    "gap",
    "gap, any",
    "pose",
    "answer",
    "check",
    "faults",
)
ROW = "{:18} {:9} {:16} {:>5} {:>6} {:>10} {:>7} {:>8} {:>6} {:>6} {:>6} {:>6}"


def row(arguments: argparse.Namespace, graph: str, graph_pass: str, fabric: str) -> tuple[str, ...]:
    """One line of the table."""
    from dse.cli.interface import solve
    from dse.fabric.contract import PROBLEM
    from dse.fabric.options import FabricOptions
    from dse.results.result import relative_gap

    begun = time.process_time()
    asked: dict[str, Any] = {
        "fabric": fabric,
        "pass_": graph_pass,
        "cost": arguments.cost,
        "chains": arguments.chains,
        "moves": arguments.moves,
        "batch": arguments.batch,
    }
    problem = PROBLEM.pose(FabricOptions(graph, **asked)).problem
    posed = time.process_time()
    # The interface poses the problem once more, which is taken off.
    answer = solve("fabric", graph, **asked, workers=0, seed=arguments.seed)
    answered = time.process_time()
    faults = answer.check()
    checked = time.process_time()
    value, cut = answer.value, answer.metrics.get("cut")
    own = answer.result.bound if cut is None else cut["bound_per_s"]
    gaps = ("-", "-") if not value else (f"{relative_gap(value, own):.1%}", f"{answer.result.gap:.1%}")
    return (
        graph,
        graph_pass,
        fabric,
        str(len(problem.turns) or 1),
        str(len(problem.pieces)),
        answer.status if value is None else f"{value:,.1f}",
        *gaps,
        f"{posed - begun:.1f}",
        f"{answered - posed - (posed - begun):.1f}",
        f"{checked - answered:.1f}",
        str(len(faults)),
    )


def main() -> None:
    """One line for each graph, pass and fabric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="append", help="may be given several times; layers and models by default")
    parser.add_argument("--pass", dest="passes", action="append", choices=("forward", "training"))
    parser.add_argument("--fabric", action="append", help="may be given several times; all by default")
    parser.add_argument("--cost", default="simulator")
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--moves", type=int, default=5_000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("$ python -m benchmarks.fabric_models", shlex.join(sys.argv[1:]))
    print(ROW.format(*HEAD), flush=True)
    for graph in arguments.graph or (*LAYERS, *MODELS):
        for graph_pass in arguments.passes or ("forward", "training"):
            for fabric in arguments.fabric or ("sn10", "plasticine-8x16"):
                print(ROW.format(*row(arguments, graph, graph_pass, fabric)), flush=True)


if __name__ == "__main__":
    main()
