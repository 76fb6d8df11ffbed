"""The catalogue: its split, and its graphs against what is published of the networks."""

import hashlib
import re
import sys

import numpy as np
import pytest
import rustworkx

from benchmarks.partition_graphs import attends
from dse.importer.torch.transformers_config import trace_config
from dse.importer.work import tensor_flops
from dse.partition.graphs import graph_of, prepare
from dse.partition.graphs.from_trace import graph_from_trace, weight_bytes
from dse.partition.graphs.usable import linear_partition
from dse.sources import catalogue
from dse.version import DISTRIBUTION
from hardware.inputs import InputError
from tests.partition.preparation import differences

PUBLISHED = {  # products in 10⁹ multiply-adds of one picture, and parameters in 10⁶
    "alexnet": (0.714, 61.1),  # torchvision, table of its weights
    "vgg16": (15.47, 138.4),
    "resnet18": (1.814, 11.69),
    "resnet50": (4.089, 25.56),
    "resnext50-32x4d": (4.230, 25.03),
    "densenet121": (2.834, 7.98),
    "inception-v3": (5.713, 23.83),  # 27.16 with the classifier that only helps training
    "squeezenet": (0.349, 1.24),
    "mobilenet-v2": (0.301, 3.50),
    "shufflenet-v2": (0.145, 2.28),
    "mnasnet": (0.314, 4.38),
    "efficientnet-b0": (0.386, 5.29),
    "convnext-tiny": (4.456, 28.59),
    "ghostnet": (0.141, 5.2),  # Han et al. 2020, table 7
    "pointnet": (0.440, 3.5),  # Qi et al. 2017, table 6
}


def connected_parts(graph):
    found = rustworkx.PyGraph()
    found.add_nodes_from(range(len(graph)))
    found.add_edges_from_no_data([tuple(edge) for edge in graph.edges.tolist()])
    return rustworkx.number_connected_components(found)


def joined_again(graph):
    """The edges between the operators that primitives are parts of, by name, with the bytes that go along them."""
    owner = [name.split("/")[0] for name in graph.names]
    return {
        (owner[source], owner[target], graph.output_bytes[source])
        for source, target in graph.edges
        if owner[source] != owner[target]
    }


def drawn_split(families, seed):
    """A split of graphs (name → family), in parts of ``SIZES``, that takes from every family its share.

    The graphs stand in a row, family by family in alphabetical order, within a family in the order of the SHA-256 of
    ``seed/name``. Every 87 / 16th graph of the row is for testing; of the others every 71 / 5th for validation. A
    family of n graphs so has ⌊16 n / 87⌋ or one more in the test set.
    """
    row = sorted(families, key=lambda name: (families[name], hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()))
    test = _every(row, catalogue.SIZES["test"])
    rest = [name for name in row if name not in test]
    validation = _every(rest, catalogue.SIZES["validation"])
    training = tuple(name for name in rest if name not in validation)
    return {"training": training, "validation": validation, "test": test}


def _every(row, count):
    """``count`` of a row, evenly."""
    size = len(row)
    return tuple(row[index] for index in range(size) if (index + 1) * count // size > index * count // size)


def test_split_is_the_drawn_one_and_covers_the_catalogue():
    split = catalogue.split()
    assert {part: len(names) for part, names in split.items()} == dict(catalogue.SIZES)
    together = [name for names in split.values() for name in names]
    assert len(together) == len(set(together)) == 87
    assert set(together) == set(catalogue.families())
    assert drawn_split(catalogue.families(), seed=20) == split


def test_every_family_has_its_share_of_the_test_set():
    families, test = catalogue.families(), catalogue.split()["test"]
    for family in set(families.values()):
        size = sum(other == family for other in families.values())
        share = sum(families[name] == family for name in test)
        assert abs(share - size * 16 / 87) < 1
    assert set(PUBLISHED) <= set(families)


BY_FAMILY = {family: name for name, family in sorted(catalogue.families().items(), reverse=True)}
"""One network of each family."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*PUBLISHED, *BY_FAMILY.values()}))
def test_a_graph_of_each_family_is_sound_and_those_that_papers_describe_are_of_their_size(name):
    entry = catalogue.entry(name)
    trace, graph = entry.trace(), graph_of(entry.name)
    assert 10 <= len(graph) < 1000
    assert len(set(graph.names)) == len(graph)
    assert len(graph.topological_order) == len(graph)  # acyclic
    assert connected_parts(graph) == 1
    assert np.isnan(graph.latency_s).all()
    for column in (graph.output_bytes, graph.weight_bytes, graph.flops, graph.moved_bytes):
        assert (column >= 0).all()
        assert np.isfinite(column).all()
    assert (graph.output_bytes > 0).all()
    assert not attends(trace)
    prepared = prepare(graph)
    assert not differences(prepared)
    assert linear_partition(prepared.graph).max() >= linear_partition(graph).max()
    if name in PUBLISHED:
        multiply_adds, parameters = PUBLISHED[name]
        assert sum(tensor_flops(trace, step) for step in trace.steps) / 2e9 == pytest.approx(multiply_adds, rel=0.02)
        assert weight_bytes(trace, element_bytes=1) / 1e6 == pytest.approx(parameters, rel=0.02)


def test_bert_large_is_of_the_size_of_the_papers():
    entry = catalogue.entry("bert-large-primitive")
    trace, graph = entry.trace(), graph_of(entry.name)
    assert attends(trace)
    prepared = prepare(graph)
    assert not differences(prepared)
    assert len(prepared.graph) == pytest.approx(2138, rel=0.005)
    assert weight_bytes(trace) == pytest.approx(2 * 335e6, rel=0.01)
    assert linear_partition(graph).max() < 36 <= linear_partition(prepared.graph).max()
    per_layer = (len(prepared.graph) - len(prepare(graph_of("bert-base-primitive")).graph)) / 12
    # Six linear layers; reshaping and transposing heads; products, their scale, the mask's sum with its broadcast; the
    # mask, given to each layer, reshaped, broadcast, reshaped, subtracted from and scaled; softmax; sums; norms; GELU.
    assert per_layer == 6 * 3 + 8 + 2 + 1 + 2 + 6 + 7 + 2 + 2 * 17 + 8


def test_one_graph_has_ten_thousand_operators():
    graph = prepare(graph_of("gpt-1008b-primitive")).graph
    assert 10_000 <= len(graph) < 11_000
    assert connected_parts(graph) == 1
    weights = weight_bytes(catalogue.entry("gpt-1008b-primitive").trace(), element_bytes=1)
    assert weights / 1e9 == pytest.approx(1008, rel=0.001)


def test_granularities_agree_on_flops_and_on_what_is_held():
    for name in ("bert-mini-primitive", "mlp-mixer-s16", "mobilenet-v2"):
        trace = catalogue.entry(name).trace()
        whole, parts = graph_from_trace(trace, "operator"), graph_from_trace(trace, "primitive")
        assert len(whole) < len(parts)
        assert whole.flops.sum() == parts.flops.sum()
        assert whole.weight_bytes.sum() == parts.weight_bytes.sum()
        assert joined_again(parts) == joined_again(whole)


def test_a_wrong_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="did you mean resnet50"):
        catalogue.entry("resnet50x")


def test_without_pytorch_a_graph_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=rf"alexnet: requires PyTorch: pip install '{DISTRIBUTION}\[learn\]'"):
        catalogue.entry("alexnet").source.trace()


def test_every_missing_library_is_in_one_hint(monkeypatch, tmp_path):
    """With torch and transformers both missing, a first hint for torch alone would end in a second error."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "bert"}')
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError) as refused:
        trace_config(path, "bert", 1, None)
    needed = f"requires PyTorch and transformers: pip install '{DISTRIBUTION}[learn,models]'"
    assert str(refused.value) == f"{path}: {needed}"
    with pytest.raises(InputError, match=re.escape(needed)):
        catalogue.entry("convnext-v2-tiny").source.trace()
