"""Time of a move of the placer on a dataflow fabric, rule by rule, beside routing and judging everything again.

Target: at most 5 us a move at about 90 units on a grid of 8 x 16. The case is a random MLP, spread over the grid of
plasticine-8x16. A move is a unit's, with its nets routed and the rule brought up to date; most are
refused and taken back. "All again" routes all nets and computes all rules with the same compiled code.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from dse.fabric.rules import MIXTURE, RULES, RuleWeights, single_rule
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain, case_of, state_of
from dse.fabric.search.expansion import expand
from dse.fabric.search.move_kernels import begin
from dse.fabric.search.sites import random_sites
from dse.models.dataflow_blocks import BlockSizes, block_graph, random_block
from hardware.fabrics import fabric
from hardware.operator_slots import operator_slots

SIZES = BlockSizes(step=64, tokens=(64, 256), width=(64, 384), ratio=(1, 2), depth=(1, 3), copies=(1, 4))
REPEATS = 3
TARGET_US = 5.0


def seconds(work):
    """CPU seconds of one call, the least of a few."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def again_seconds(pipeline, grid, weights, routing):
    """CPU seconds of routing and judging everything."""
    case, site = case_of(pipeline, grid, weights, routing), random_sites(pipeline, grid, np.random.default_rng(0))
    states = iter([state_of(pipeline, grid, site, case) for _ in range(REPEATS)])
    begin(case, state_of(pipeline, grid, site, case))
    return seconds(lambda: begin(case, next(states)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=200_000)
    moves = parser.parse_args().moves
    grid = fabric("plasticine-8x16")
    pipeline = expand(block_graph(random_block("mlp", 0, SIZES), "forward"), grid, operator_slots()).pipeline
    print(f"{len(pipeline.units)} units, {len(pipeline.nets)} nets, {moves:,} moves; target {TARGET_US:g} us a move")
    print(f"{'rule':14}{'routes':12}{'us a move':>10}{'moves a s':>12}{'all again, us':>15}")
    everything = RuleWeights(*[1.0] * len(RULES))
    for name, weights in [*((rule, single_rule(rule)) for rule in RULES), ("mixture", MIXTURE), ("all", everything)]:
        for routing in ("xy", "congestion"):
            annealing = Annealing(pipeline, grid, weights, AnnealSettings(moves=moves, routing=routing))
            replace(annealing, settings=AnnealSettings(moves=100, routing=routing))(Chain(0))
            each = seconds(lambda annealing=annealing: annealing(Chain(1))) / moves
            again = again_seconds(pipeline, grid, weights, routing)
            print(f"{name:14}{routing:12}{each * 1e6:10.2f}{1 / each:12,.0f}{again * 1e6:15.1f}")


if __name__ == "__main__":
    main()
