"""Annealing of small pipelines against the cheapest placements that CP-SAT finds, one rule at a time.

Each line: pipelines; those whose placement CP-SAT has proven cheapest, within its limit of deterministic time; those on
which annealing is as good as CP-SAT's placement, proven or not; and the mean and largest excess over it.
"""

import argparse
import time
from typing import get_args

HEAD = ("rule", "routing", "pipelines", "proven", "as good", "mean excess", "largest", "CP-SAT, CPU s", "annealing")
ROW = "{:11} {:8} {:>9} {:>7} {:>8} {:>12} {:>8} {:>14} {:>10}"


def main() -> None:
    """One line for each rule and routing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--moves", type=int, default=20_000)
    arguments = parser.parse_args()
    from dataclasses import replace

    import numpy as np

    from dse.fabric.rules import rule_terms, single_rule
    from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
    from hardware.fabrics import fabric
    from tests.fabric.cases import random_pipeline
    from tests.fabric.exact import LinearRule, cheapest

    small = replace(fabric("plasticine-8x16"), name="small", rows=3, columns=4)
    print(ROW.format(*HEAD), flush=True)
    for rule in get_args(LinearRule):
        for routing in ("xy", "yx"):
            excess, proven, cp_s, anneal_s = [], 0, 0.0, 0.0
            for seed in range(arguments.pipelines):
                pipeline = random_pipeline(np.random.default_rng(seed), small)
                begun = time.process_time()
                best = cheapest(pipeline, small, rule, routing)
                cp_s += time.process_time() - begun
                begun = time.process_time()
                settings = AnnealSettings(moves=arguments.moves, routing=routing)
                placement = Annealing(pipeline, small, single_rule(rule), settings)(Chain(seed)).placement
                anneal_s += time.process_time() - begun
                value = getattr(rule_terms(pipeline, placement, small), rule)
                proven += best.value == best.bound
                excess.append(value / best.value - 1 if best.value else float(value > 0))
            print(
                ROW.format(
                    rule,
                    routing,
                    len(excess),
                    proven,
                    sum(each <= 1e-9 for each in excess),
                    f"{np.mean(excess):.2%}",
                    f"{max(excess):.1%}",
                    f"{cp_s:.1f}",
                    f"{anneal_s:.1f}",
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
