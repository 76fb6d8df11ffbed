"""A graph that is cut, placed piece by piece: labelled placements of its pieces, and its throughput under a cost."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.problem import FabricProblem
from dse.fabric.rules import MIXTURE, single_rule
from dse.models.dataflow_blocks import Block, block_graph
from dse.reproduce.rdu.study import VERSIONS, Budget
from dse.run.progress import never_stop
from dse.run.run import Run
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.laboratory import FabricLaboratory
from policies.fabric.model.features import FEATURES
from policies.fabric.model_trial import ModelTrial
from policies.fabric.study.labelled import Labelled

PLASTICINE = fabric("plasticine-8x16")
SMALL = replace(PLASTICINE, name="small", rows=4, columns=8, memory_bytes=16 * PLASTICINE.flit_bytes)


@pytest.fixture(scope="module")
def trial():
    graph = block_graph(Block("ffn", tokens=64, width=256, inner=256, heads=4, depth=1), "forward")
    return ModelTrial(FabricProblem.of(graph, SMALL, operator_slots(), 1.0, 4), seed=0)


def test_every_piece_has_placements_with_their_simulated_slots(trial):
    samples = trial.samples(2)
    assert len(trial.problem.pieces) > 1
    assert sorted(each.graph for each in samples.samples) == sorted(2 * [*range(len(trial.problem.pieces))])
    for each in samples.samples:
        pipeline = trial.problem.pieces[each.graph].pipeline
        assert throughput(Simulator(pipeline, SMALL), each.placement).interval_slots == each.interval_slots
    assert Labelled(samples, SMALL).examples.features.shape == (len(samples.samples), len(FEATURES))


def test_a_batch_is_no_faster_than_its_bound_and_slower_where_placements_are_poor(trial):
    annealed = trial.samples_per_s(MIXTURE, None, 2000, never_stop)
    poor = trial.samples_per_s(single_rule("off_chip"), None, 1, never_stop)
    assert 0 < poor < annealed <= trial.bound_per_s
    assert trial.size() == {"pieces": len(trial.problem.pieces), "turns": len(trial.problem.turns)}


def test_placements_follow_from_the_seed(trial):
    one, other = (ModelTrial(trial.problem, seed).samples(1).samples for seed in (0, 0))
    assert all(np.array_equal(a.placement.site, b.placement.site) for a, b in zip(one, other, strict=True))
    assert trial.samples_per_s(MIXTURE, None, 50, never_stop) == trial.samples_per_s(MIXTURE, None, 50, never_stop)


def test_both_versions_of_the_compiler_have_the_same_pieces_and_what_has_learned_from_their_own_labels(trial):
    large = replace(trial, problem=replace(trial.problem, fabric=PLASTICINE))
    laboratory = FabricLaboratory(Budget(20, 2, 1, 1, moves=50, seeds=2), Run())
    vars(laboratory)["samples"] = large.samples(3)
    laboratory._problems["layer"] = trial.problem
    sizes = [laboratory.layer_size("layer", version) for version in VERSIONS]
    assert [each["pieces"] for each in sizes] == [len(trial.problem.pieces)] * 2
    assert sizes[0]["bound_per_s"] == large.bound_per_s
    rates = {
        (version, seed): laboratory.layer_rate("layer", version, "mixture", seed)["samples_per_s"]
        for version in VERSIONS
        for seed in (0, 1)
    }
    assert rates["past", 1] == replace(large, seed=1).samples_per_s(MIXTURE, None, 50, never_stop)
    assert rates["present", 0] != rates["past", 0]
    past, present = (laboratory.layer_accuracy("layer", version, "ridge") for version in VERSIONS)
    assert past["error"] != present["error"]
    assert past["correlation_interval"] is None
    assert laboratory.layer_accuracy("layer", "past", "ridge") == past
