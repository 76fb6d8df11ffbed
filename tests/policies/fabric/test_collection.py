"""Collected samples: the same for any number of workers, resumed after a kill, and never mixed."""

from dataclasses import replace

import numpy as np
import pytest

from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import placement_faults
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import StoppedError
from hardware.fabric_specs import fabric
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, samples_in
from policies.fabric.data.distribution import ALL_KINDS
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.data.records import GraphRecord
from policies.fabric.data.tables import GRAPHS_FILE, SAMPLES_FILE, read_samples, write_samples
from tests.policies.fabric.quick_graphs import QUICK_GRAPHS

FABRIC = fabric("plasticine-8x16")
COLLECTOR = Collector(FABRIC, operator_slots(), RandomAnnealer(max_moves=50))
PIECES = [Piece(0, graph, 2, seed=0) for graph in QUICK_GRAPHS[:3]]


def collected(folder, executor=None, pieces=PIECES, stop=lambda: None, collector=COLLECTOR):
    folder.mkdir(exist_ok=True)
    with Journal(folder / "journal.jsonl") as journal:
        collect(journal, collector, pieces, executor or InProcessExecutor(), stop)
        return samples_in(journal)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return collected(tmp_path_factory.mktemp("samples"))


def documents(samples):
    return [sample.document() for sample in samples.samples]


def test_labels_are_what_the_simulator_says_of_legal_placements(samples):
    assert len(samples.samples) == 6
    for sample in samples.samples:
        pipeline = samples.graphs[sample.graph].pipeline
        assert not placement_faults(pipeline, sample.placement, FABRIC)
        measured = throughput(Simulator(pipeline, FABRIC), sample.placement)
        assert sample.interval_slots == measured.interval_slots
        assert sample.throughput == pytest.approx(measured.normalized)


def test_placements_of_a_graph_differ(samples):
    first, second = samples.samples[:2]
    assert first.graph == second.graph
    assert first.placer != second.placer
    assert first.placement.site.tolist() != second.placement.site.tolist()


def test_workers_collect_the_same(samples, tmp_path, ray_executor):
    assert documents(collected(tmp_path, ray_executor)) == documents(samples)


def test_a_collection_goes_on_where_it_was_stopped(samples, tmp_path):
    asked = iter([None, "interrupted"])
    with pytest.raises(StoppedError):
        collected(tmp_path, stop=lambda: next(asked))
    before = (tmp_path / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(before + b'{"crc":"0000')
    assert documents(collected(tmp_path)) == documents(samples)
    assert (tmp_path / "journal.jsonl").read_bytes().startswith(before)


def test_other_seeds_and_rounds_place_differently(samples, tmp_path):
    for change in ({"seed": 1}, {"round": 1}):
        other = collected(tmp_path / str(change), pieces=[replace(PIECES[0], **change)])
        assert other.samples[0].placement.site.tolist() != samples.samples[0].placement.site.tolist()


@pytest.mark.parametrize("change", [{"hop_slots": 5}, {"switch_slots": 0}])
def test_samples_of_another_fabric_are_refused(tmp_path, change):
    collected(tmp_path, pieces=PIECES[:1])
    other = replace(COLLECTOR, fabric=replace(FABRIC, **change))
    with pytest.raises(InputError, match="use a new directory"):
        collected(tmp_path, pieces=PIECES, collector=other)


def test_graphs_of_other_kinds_are_refused(tmp_path):
    collected(tmp_path, pieces=PIECES[:1])
    with pytest.raises(InputError, match=r"journal.jsonl: kinds: gemm, mlp, ffn, mha: must be gemm, .*, excited"):
        collected(tmp_path, collector=replace(COLLECTOR, graphs=ALL_KINDS))


def test_tables_give_the_samples_back(samples, tmp_path):
    write_samples(tmp_path, samples)
    back = read_samples(tmp_path)
    assert documents(back) == documents(samples)
    assert back.provenance == samples.provenance
    assert {n: graph.document() for n, graph in back.graphs.items()} == {
        n: graph.document() for n, graph in samples.graphs.items()
    }


def test_a_record_gives_its_pipeline_back(samples):
    for graph in samples.graphs.values():
        assert GraphRecord.from_document(graph.document()).pipeline == graph.pipeline


def test_without_the_table_of_slots_only_some_work_differs(samples):
    graph = next(graph for graph in samples.graphs.values() if graph.kind == "ffn")
    given, denied = (np.array([u.work_slots for u in p.units]) for p in (graph.pipeline, graph.plain_pipeline))
    two_passes = np.isin(graph.operators, ("layer_norm", "softmax")) & (given > 0)
    assert two_passes.any()
    np.testing.assert_array_equal(given[~two_passes], denied[~two_passes])
    np.testing.assert_array_equal(given[two_passes], 2 * denied[two_passes])


@pytest.mark.parametrize("file", [GRAPHS_FILE, SAMPLES_FILE])
def test_damaged_tables_are_one_line(samples, tmp_path, file):
    with pytest.raises(InputError, match="no such table"):
        read_samples(tmp_path)
    write_samples(tmp_path, samples)
    (tmp_path / file).write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="Parquet"):
        read_samples(tmp_path)
