"""Annealing of small pipelines against the cheapest placements that CP-SAT finds, one rule at a time.

Each line: pipelines; those whose placement CP-SAT has proven cheapest, within its limit of deterministic time; those on
which annealing is as good as CP-SAT's placement, proven or not; and the mean and largest excess over it.
"""

import time
from typing import get_args

from benchmarks.recording import Record, Results, parser_of

RECORD = Record(
    "fabric_oracle",
    ("as_good", "worst"),
    {
        "main": (
            "rule",
            "routes",
            "pipelines",
            "proven cheapest by CP-SAT",
            "annealing as good as CP-SAT",
            "mean excess",
            "largest",
            "CP-SAT, CPU s",
            "annealing",
        )
    },
)
ROUTES = {"xy": "rows first", "yx": "columns first"}


def main() -> None:
    """One line for each rule and routing."""
    parser, results, every = parser_of(__doc__), Results(RECORD), []
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--moves", type=int, default=20_000)
    arguments = parser.parse_args()
    from dataclasses import replace

    import numpy as np

    from dse.fabric.rules import rule_terms, single_rule
    from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
    from hardware.fabric_specs import fabric
    from tests.fabric.cases import random_pipeline
    from tests.fabric.exact import LinearRule, cheapest

    small = replace(fabric("plasticine-8x16"), name="small", rows=3, columns=4)
    for rule in get_args(LinearRule):
        for routing, routes in ROUTES.items():
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
            as_good = sum(each <= 1e-9 for each in excess)
            extent = f"{100 * np.mean(excess):.2f} %", f"{100 * max(excess):.1f} %"
            seconds = f"{cp_s:.1f}", f"{anneal_s:.1f}"
            results.row("main", rule, routes, len(excess), proven, as_good, *extent, *seconds)
            every += excess
    results.figure("as_good", f"{sum(each <= 1e-9 for each in every)} of {len(every)}")
    results.figure("worst", f"{100 * max(every):.1f} %")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
