"""Random cases: one for each seed, within the limits that they state."""

from collections import Counter
from dataclasses import replace

import pytest

from dse.fabric.cases import (
    MAX_NETWORK_SLOTS,
    MAX_SLOTS,
    MIN_NETWORK_SLOTS,
    MIN_NETWORK_USED,
    MIN_SLOTS,
    MIN_USED,
    NETWORKS_IN_A_ROW,
    block_case,
    network_case,
    require_block_cases,
)
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots

PLASTICINE = fabric("plasticine-8x16")
SLOTS = operator_slots()


@pytest.mark.parametrize("seed", range(16))
def test_a_case_is_within_its_limits(seed):
    case = block_case(seed, PLASTICINE, SLOTS)
    pipeline = case.expansion.pipeline
    sites = [unit.kind.site for unit in pipeline.units]
    assert MIN_SLOTS <= pipeline.ideal_slots <= MAX_SLOTS
    assert max(sites.count("compute"), sites.count("memory")) <= case.fill * 64
    assert sites.count("compute") + sites.count("memory") >= MIN_USED * 128
    assert case.expansion.period_slots == case.expansion.target_slots
    assert case.expansion.graph.is_training == (case.graph_pass == "training")


@pytest.mark.parametrize("seed", range(NETWORKS_IN_A_ROW))
def test_a_network_is_within_its_limits(seed):
    case = network_case(seed, PLASTICINE, SLOTS)
    pipeline = case.expansion.pipeline
    sites = [unit.kind.site for unit in pipeline.units]
    assert MIN_NETWORK_SLOTS <= pipeline.ideal_slots <= MAX_NETWORK_SLOTS
    assert max(sites.count("compute"), sites.count("memory")) <= case.fill * 64
    assert sites.count("compute") + sites.count("memory") >= MIN_NETWORK_USED * 128
    assert case.expansion.period_slots == case.expansion.target_slots
    assert case.expansion.graph.is_training == (case.graph_pass == "training")
    assert network_case(seed, PLASTICINE, SLOTS).expansion.pipeline == pipeline


def test_a_row_of_networks_has_all_kinds_and_passes():
    cases = [network_case(seed, PLASTICINE, SLOTS) for seed in range(NETWORKS_IN_A_ROW, 2 * NETWORKS_IN_A_ROW)]
    assert len({(case.kind, case.graph_pass) for case in cases}) == NETWORKS_IN_A_ROW


def test_networks_that_a_fabric_cannot_train_are_forward_passes_and_one_without_room_is_refused(monkeypatch):
    monkeypatch.setattr("dse.fabric.cases._MAX_DRAWS", 30)
    small = replace(PLASTICINE, name="small", rows=4, columns=6)
    asked = next(seed for seed in range(NETWORKS_IN_A_ROW) if network_case(seed, PLASTICINE, SLOTS).kind == "heads")
    training = asked + NETWORKS_IN_A_ROW // 2
    assert network_case(training, PLASTICINE, SLOTS).graph_pass == "training"
    assert network_case(training, small, SLOTS).graph_pass == "forward"
    with pytest.raises(ValueError, match="tiny: none of 30 random networks of kind hourglass fits on the fabric"):
        network_case(0, replace(PLASTICINE, name="tiny", rows=1, columns=2), SLOTS)


def test_eight_seeds_have_all_kinds_and_passes():
    cases = [block_case(seed, PLASTICINE, SLOTS) for seed in range(32, 40)]
    assert len({(case.block.kind, case.graph_pass) for case in cases}) == 8


def test_training_that_a_fabric_cannot_hold_is_the_forward_pass_of_the_same_kind():
    small = replace(PLASTICINE, name="small", columns=8)
    cases = [block_case(seed, small, SLOTS) for seed in range(8)]
    drawn = Counter((case.block.kind, case.graph_pass) for case in cases)
    assert drawn[("mha", "forward")] == 2
    assert len(drawn) == 7
    require_block_cases(small, SLOTS)


def test_a_seed_gives_one_case():
    first, again = block_case(5, PLASTICINE, SLOTS), block_case(5, PLASTICINE, SLOTS)
    assert (first.block, first.fill, first.expansion.pipeline) == (again.block, again.fill, again.expansion.pipeline)
    assert block_case(13, PLASTICINE, SLOTS).block != first.block


def test_a_table_of_the_same_name_with_other_slots_gives_another_case():
    slower = replace(SLOTS, slots={kind: 2 * slots for kind, slots in SLOTS.slots.items()})
    assert slower.name == SLOTS.name
    before, after = (block_case(5, PLASTICINE, each).expansion.pipeline for each in (SLOTS, slower))
    assert before.steps.tolist() != after.steps.tolist()


def test_a_fabric_without_room_is_refused(monkeypatch):
    monkeypatch.setattr("dse.fabric.cases._MAX_DRAWS", 50)
    with pytest.raises(
        ValueError, match="tiny: none of 50 random graphs \\(forward\\) of kind gemm fits on the fabric"
    ):
        block_case(0, replace(PLASTICINE, name="tiny", rows=1, columns=2), SLOTS)
