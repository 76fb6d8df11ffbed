"""Time of a move of the placer on a dataflow fabric, rule by rule, and of a candidate that a learned cost judges.

Target: at most 5 us a move at about 90 units on a grid of 8 x 16, at most 15 us where a student corrects the rules, and
at most 1 ms for a network to judge a candidate, in batches of 64. Times are CPU time of this process, the median of
several repeats.

The case is a random MLP, spread over the grid of plasticine-8x16. A move is a unit's, with its nets routed and the rule
brought up to date; most are refused and undone. "All again" routes all nets and computes all rules with the same
compiled code. The student is that of the learned cost in the package, or of --checkpoint; next to it are the tuned
rules that it corrects.

Candidates are placements of the same case by short chains. The checkpoint's own model judges them, and the same stack
with one network of the default settings, whose weights are random: they do not change the time. The learned cost pays
for features (hand features and those of contention), for the encoding of placements where there is a network, and for
what is predicted from both.
"""

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.fabric.rules import MIXTURE, RULES, RuleWeights, single_rule
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain, case_of, state_of
from dse.fabric.search.expansion import expand
from dse.fabric.search.move_kernels import begin
from dse.fabric.search.sites import random_sites
from dse.fabric.setting import tuned_for
from dse.models.dataflow_blocks import BlockSizes, block_graph, random_block
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.methods import SHIPPED
from policies.fabric.model.checkpoint import load_for
from policies.fabric.model.contention import contention_features
from policies.fabric.model.cost import LearnedCost
from policies.fabric.model.encoding import Encoder
from policies.fabric.model.ensemble import SHARE, Ensemble
from policies.fabric.model.features import Featurizer
from policies.fabric.model.network import GraphNetwork
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import BATCH, NetworkModel, device
from policies.fabric.student_checkpoint import STUDENT, load_student
from policies.learning.checkpoint import chosen_folder

SIZES = BlockSizes(step=64, tokens=(64, 256), width=(64, 384), ratio=(1, 2), depth=(1, 3), copies=(1, 4))
RECORD = Record(
    "fabric_moves",
    ("tuned_move", "student_move", "candidate", "network_candidate"),
    {
        "moves": ("rule", "routes", "µs per move", "all again, µs"),
        "candidates": ("judge", "features, ms", "encoding, ms", "model, ms", "ms per candidate"),
    },
)
REPEATS = 5
TARGET_US, STUDENT_TARGET_US, CANDIDATE_TARGET_MS = 5.0, 15.0, 1.0


def seconds(work):
    """CPU seconds of one call, the median of a few."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return median(times)


def again_seconds(pipeline, grid, weights, routing, student):
    """CPU seconds of routing and judging everything."""
    case, site = (
        case_of(pipeline, grid, weights, routing, student),
        random_sites(pipeline, grid, np.random.default_rng(0)),
    )
    states = iter([state_of(pipeline, grid, site, case) for _ in range(REPEATS)])
    begin(case, state_of(pipeline, grid, site, case), False)
    return seconds(lambda: begin(case, next(states), False))


def costs(checkpoint, grid):
    """(name, weights of the rules, settings, student) of what is timed."""
    everything, untuned = RuleWeights(*[1.0] * len(RULES)), AnnealSettings()
    for name, weights in [*((rule, single_rule(rule)) for rule in RULES), ("mixture", MIXTURE), ("all", everything)]:
        yield name, weights, untuned, None
    tuned = tuned_for(grid).setting
    yield "tuned", tuned.weights, tuned.schedule(untuned), None
    folder = chosen_folder(Path(checkpoint or SHIPPED))
    if not (folder / STUDENT).is_dir():
        raise SystemExit(f"no student in {folder}")
    trained = load_student(folder, provenance_of(grid, operator_slots()))
    yield "student", trained.rules.weights, trained.rules.schedule(untuned), trained.student


def judges(checkpoint, grid):
    """(name, model) of what judges candidates: the checkpoint's, and with a network on the same stack."""
    kept = load_for(Path(checkpoint or SHIPPED), provenance_of(grid, operator_slots()))
    own = Ensemble.of(kept.settings, kept.tensors)
    network = NetworkModel(GraphNetwork(CostSettings()).to(device()))
    yield f"{len(own.networks)} networks", own
    yield "1 network", Ensemble(own.stack, (network,), SHARE)


def judged_rows(results, checkpoint, grid, pipeline):
    """A line for each judge: CPU ms of a candidate, in batches."""
    annealing = Annealing(pipeline, grid, MIXTURE, AnnealSettings(moves=500))
    placements = [annealing(Chain(seed)).placement for seed in range(BATCH)]
    featurizer = Featurizer(pipeline, grid)
    encoder = Encoder(featurizer)
    for name, model in judges(checkpoint, grid):
        cost = LearnedCost(model, pipeline, grid)
        examples, _ = cost._examples(placements)
        parts = (
            lambda: [(featurizer(each), contention_features(featurizer, each)) for each in placements],
            (lambda: [encoder(each) for each in placements]) if model.needs_encodings else (lambda: None),
            lambda model=model, examples=examples: model.predict(examples),
            lambda cost=cost: cost.interval_slots(placements),
        )
        features, encoding, predicted, whole = (1e3 * seconds(part) / BATCH for part in parts)
        cells = (f"{each:.3f}" for each in (features, encoding, predicted, whole))
        results.row("candidates", f"stack and {name}", *cells)
        results.figure("network_candidate" if name == "1 network" else "candidate", f"{whole:.2f} ms")


def main():
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--moves", type=int, default=200_000)
    parser.add_argument("--checkpoint", help="of the learned cost (default: the one in the package)")
    given = parser.parse_args()
    moves, grid = given.moves, fabric("plasticine-8x16")
    pipeline = expand(block_graph(random_block("mlp", 0, SIZES), "forward"), grid, operator_slots()).pipeline
    print(f"{len(pipeline.units)} units, {len(pipeline.nets)} nets, {moves:,} moves")
    targets = f"{TARGET_US:g} us a move, {STUDENT_TARGET_US:g} with a student, {CANDIDATE_TARGET_MS:g} ms a candidate"
    print(f"Targets: {targets}")
    by_name = {}
    for name, weights, settings, student in costs(given.checkpoint, grid):
        for routing in ("xy", "congestion"):
            asked = replace(settings, moves=moves, routing=routing)
            annealing = Annealing(pipeline, grid, weights, asked, student=student)
            replace(annealing, settings=replace(asked, moves=100))(Chain(0))
            each = seconds(lambda annealing=annealing: annealing(Chain(1))) / moves
            again = again_seconds(pipeline, grid, weights, routing, student)
            results.row("moves", name, routing, f"{each * 1e6:.2f}", f"{again * 1e6:.1f}")
            by_name.setdefault(name, []).append(1e6 * each)
    for name in ("tuned", "student"):
        results.figure(f"{name}_move", f"{min(by_name[name]):.1f} to {max(by_name[name]):.1f} µs")
    judged_rows(results, given.checkpoint, grid, pipeline)
    results.save(given.record)


if __name__ == "__main__":
    main()
