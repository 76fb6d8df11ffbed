"""What a seed draws is frozen: samples that were collected before a change must be those that would be collected after.

A digest that changes on purpose makes collected samples, shipped models and published tables those of another sampler.
"""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from dse.fabric.cases import block_case
from dse.fabric.setting import Setting
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Piece, labelled
from policies.fabric.data.distribution import ALL_KINDS, BLOCKS, record_of
from policies.fabric.data.placers import RandomAnnealer, StudentAnnealer, moves_on
from tests.fabric.test_student import random_student

PLASTICINE, SLOTS = fabric("plasticine-8x16"), operator_slots()

PLACERS = {
    "random": RandomAnnealer(max_moves=2_000),
    "student": StudentAnnealer(random_student(np.random.default_rng(0)), Setting.untuned().weights, max_moves=2_000),
}


NETWORKS = {8: "711652a41f9b0e6c", 15: "038a59911e5fbcb3", 35: "c5a20a73cfd3b503"}
"""Of some numbers, the networks."""


def fingerprint(*parts):
    content = hashlib.sha256()
    for part in parts:
        content.update(repr(part).encode())
    return content.hexdigest()[:16]


def rounded(value):
    """Settings in ten significant digits: the last ones may differ between machines."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.9e}") if isinstance(value, float) else value


def test_the_seeds_of_a_piece():
    assert Piece(0, 3, 2, seed=7).seeds() == [119778432272853, 5567233601153]
    assert Piece(1, 3, 2, seed=7).seeds() == [208372234096198, 19142239658818]


@pytest.mark.parametrize(("number", "expected"), [(0, "f6c00de566229a4f"), (7, "bb3bfa9011ff684b")])
def test_the_graph_of_a_number(number, expected):
    case = block_case(number, PLASTICINE, SLOTS)
    assert fingerprint(case.block, case.graph_pass, round(case.fill, 9), case.expansion.pipeline) == expected


@pytest.mark.parametrize(("number", "kind"), [(8, "hourglass"), (15, "dense"), (35, "dense")])
def test_the_network_of_a_number(number, kind):
    record = ALL_KINDS(number, PLASTICINE, SLOTS)
    assert (record.number, record.kind) == (number, kind)
    assert fingerprint(record.graph_pass, round(record.fill, 9), record.pipeline, record.plain_work) == NETWORKS[number]


def test_blocks_among_networks_are_those_without_them():
    assert ALL_KINDS.in_a_row - BLOCKS.in_a_row == len(ALL_KINDS.kinds[4:]) * 2
    among, alone = ALL_KINDS(23, PLASTICINE, SLOTS), BLOCKS(11, PLASTICINE, SLOTS)
    assert among.document() == {**alone.document(), "number": 23}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("random", ("702afe0faa6efadf", "e8f50f4c5d41dbe4")), ("student", ("ac07fda285dfbc61", "94588936ea2a3343"))],
)
def test_the_placements_of_seeds(name, expected):
    record = record_of(block_case(0, PLASTICINE, SLOTS), PLASTICINE)
    samples = labelled(record, PLASTICINE, PLACERS[name], 0, Piece(0, 0, 4, seed=0).seeds())
    placements = [(each.placement.site.tolist(), each.placement.route_link.tolist()) for each in samples]
    intervals = [each.interval_slots for each in samples]
    assert (fingerprint([rounded(each.placer) for each in samples]), fingerprint(placements, intervals)) == expected


def test_annealings_have_as_many_moves_for_each_unit_of_a_larger_fabric():
    assert moves_on(PLASTICINE, 300) == moves_on(replace(PLASTICINE, rows=4), 300) == 300
    sn10 = fabric("sn10")
    assert moves_on(sn10, 300) == 3_000
    pipeline = block_case(0, sn10, SLOTS).expansion.pipeline
    lengths = [RandomAnnealer(max_moves=3)(pipeline, sn10, seed).placer["moves"] for seed in range(8)]
    assert 3 < max(lengths) <= 30
