"""Time of a move of the placer on a dataflow fabric, rule by rule, beside routing and judging everything again.

Target: at most 5 us a move at about 90 units on a grid of 8 x 16, and at most 15 us where a student corrects the rules.
The case is a random MLP, spread over the grid of plasticine-8x16. A move is a unit's, with its nets routed and the rule
brought up to date; most are refused and taken back. "All again" routes all nets and computes all rules with the same
compiled code. The student is that of the learned cost that comes along, or of --checkpoint; beside it stand the tuned
rules that it corrects.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.fabric.rules import MIXTURE, RULES, RuleWeights, single_rule
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain, case_of, state_of
from dse.fabric.search.expansion import expand
from dse.fabric.search.move_kernels import begin
from dse.fabric.search.sites import random_sites
from dse.fabric.setting import tuned_for
from dse.models.dataflow_blocks import BlockSizes, block_graph, random_block
from hardware.fabrics import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.methods import SHIPPED
from policies.fabric.student_checkpoint import STUDENT, load_student
from policies.learning.checkpoint import chosen_folder

SIZES = BlockSizes(step=64, tokens=(64, 256), width=(64, 384), ratio=(1, 2), depth=(1, 3), copies=(1, 4))
REPEATS = 3
TARGET_US, STUDENT_TARGET_US = 5.0, 15.0


def seconds(work):
    """CPU seconds of one call, the least of a few."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def again_seconds(pipeline, grid, weights, routing, student):
    """CPU seconds of routing and judging everything."""
    case, site = (
        case_of(pipeline, grid, weights, routing, student),
        random_sites(pipeline, grid, np.random.default_rng(0)),
    )
    states = iter([state_of(pipeline, grid, site, case) for _ in range(REPEATS)])
    begin(case, state_of(pipeline, grid, site, case))
    return seconds(lambda: begin(case, next(states)))


def costs(checkpoint, grid):
    """(name, weights of the rules, settings, student) of what is timed."""
    everything, untuned = RuleWeights(*[1.0] * len(RULES)), AnnealSettings()
    for name, weights in [*((rule, single_rule(rule)) for rule in RULES), ("mixture", MIXTURE), ("all", everything)]:
        yield name, weights, untuned, None
    tuned = tuned_for(grid).setting
    yield "tuned", tuned.weights, tuned.schedule(untuned), None
    folder = chosen_folder(Path(checkpoint or SHIPPED))
    if not (folder / STUDENT).is_dir():
        print(f"no student in {folder}")
        return
    trained = load_student(folder, provenance_of(grid, operator_slots()))
    print(f"the student has {trained.student.weights:,} weights")
    yield "student", trained.rules.weights, trained.rules.schedule(untuned), trained.student


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=200_000)
    parser.add_argument("--checkpoint", help="of the learned cost (default: the one that comes along)")
    given = parser.parse_args()
    moves, grid = given.moves, fabric("plasticine-8x16")
    pipeline = expand(block_graph(random_block("mlp", 0, SIZES), "forward"), grid, operator_slots()).pipeline
    print(f"{len(pipeline.units)} units, {len(pipeline.nets)} nets, {moves:,} moves")
    print(f"Targets: {TARGET_US:g} us a move, {STUDENT_TARGET_US:g} with a student")
    print(f"{'rule':14}{'routes':12}{'us a move':>10}{'moves a s':>12}{'all again, us':>15}")
    for name, weights, settings, student in costs(given.checkpoint, grid):
        for routing in ("xy", "congestion"):
            asked = replace(settings, moves=moves, routing=routing)
            annealing = Annealing(pipeline, grid, weights, asked, student=student)
            replace(annealing, settings=replace(asked, moves=100))(Chain(0))
            each = seconds(lambda annealing=annealing: annealing(Chain(1))) / moves
            again = again_seconds(pipeline, grid, weights, routing, student)
            print(f"{name:14}{routing:12}{each * 1e6:10.2f}{1 / each:12,.0f}{again * 1e6:15.1f}", flush=True)


if __name__ == "__main__":
    main()
