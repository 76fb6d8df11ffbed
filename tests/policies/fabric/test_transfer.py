"""Fabrics that students are taken to: none that they have learned from, and no graph is left out."""

import pytest

pytest.importorskip("torch")

from benchmarks.fabric_transfer import LEARNED, PLASTICINE, UNSEEN, everywhere, graphs_of
from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.methods import SHIPPED
from policies.fabric.student_checkpoint import load_student


def test_no_fabric_that_was_learned_from_is_placed_on():
    fingerprints = [simulator_fingerprint(each) for each in (PLASTICINE, *LEARNED, *UNSEEN)]
    assert len(set(fingerprints)) == len(fingerprints)


def test_graphs_beyond_what_a_student_has_seen_are_placed_too():
    trained = load_student(SHIPPED, provenance_of(PLASTICINE, operator_slots()))
    (pipeline,) = graphs_of(UNSEEN[3], 1)
    assert "units" in trained.out_of_range(pipeline, UNSEEN[3])
    assert everywhere(trained).out_of_range(pipeline, UNSEEN[3]) == ()
