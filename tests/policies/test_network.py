import numpy as np
import pytest
import torch

from dse.partition.problem import PartitionGraph, PartitionProblem
from policies.partition.features import FEATURES
from policies.partition.graph_store import StoredGraph
from policies.partition.neighbours import Means
from policies.partition.network import PartitionNetwork, SageWeights, assignment_state, graph_tensors
from policies.partition.settings import LearningSettings
from tests.partition.small import random_graph
from tests.policies.examples import chain, stored

FORMS = [
    {"head": "ordinal", "prior": "none"},
    {"head": "categorical", "prior": "none", "attention": "full"},
    {"head": "ordinal", "prior": "diagonal", "attention": "full"},
    {"head": "categorical", "prior": "diagonal"},
]


def small(**changed):
    return LearningSettings(layers=2, width=16, heads=2, **changed)


def network_of(settings):
    torch.manual_seed(0)
    network = PartitionNetwork(settings)
    if settings.prior != "none":
        # Leave the point where the network says nothing.
        torch.nn.init.normal_(network.outward.weight, std=0.1)
    return network


def tensors(graph, settings):
    return graph_tensors(graph, settings, torch.device("cpu"))


def logits_of(network, graph, settings, previous=None):
    graph = tensors(graph, settings)
    (embedding,) = network.encode([graph])
    return network.logits(embedding, graph, previous)


def renumbered(graph, permutation):
    """The graph whose operator ``permutation[i]`` is operator i of ``graph``."""
    place = np.argsort(permutation)
    return PartitionGraph(
        graph.name,
        tuple(graph.names[index] for index in place),
        graph.latency_s[place],
        graph.output_bytes[place],
        graph.weight_bytes[place],
        permutation[graph.edges],
        graph.flops,
        graph.moved_bytes,
    )


@pytest.mark.parametrize("form", FORMS)
def test_renumbered_operators_get_the_same_logits(form):
    settings = small(**form)
    network = network_of(settings)
    count, chips = 24, 5
    # A chain: its topological order does not depend on the numbers, so no feature does.
    graph = chain(count)
    permutation = np.random.default_rng(3).permutation(count)
    start = np.minimum(np.arange(count) // 5, chips - 1)
    other = np.empty(count, dtype=np.int64)
    other[permutation] = start
    here = StoredGraph.of(PartitionProblem(graph, chips, 1e9), start=tuple(start.tolist()))
    there = StoredGraph.of(PartitionProblem(renumbered(graph, permutation), chips, 1e9), start=tuple(other.tolist()))
    np.testing.assert_allclose(there.features[permutation], here.features, atol=1e-6)
    for previous in (None, torch.from_numpy(start)[None]):
        moved = None if previous is None else torch.from_numpy(other)[None]
        first = logits_of(network, here, settings, previous)
        second = logits_of(network, there, settings, moved)
        assert first.shape == (1, count, chips)
        torch.testing.assert_close(second[:, permutation], first, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_weight(form):
    settings = small(**form)
    network = network_of(settings)
    graph = stored(start=tuple([0] * 24))
    chips = torch.zeros(1, 24, dtype=torch.int64)
    logits = logits_of(network, graph, settings, chips)
    torch.log_softmax(logits, -1)[..., 0].sum().backward()
    silent = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not silent


def test_several_graphs_are_encoded_as_each_alone():
    settings = small(prior="none")
    network = network_of(settings)
    graphs = [tensors(stored(count, seed=count), settings) for count in (5, 24, 9)]
    together = network.encode(graphs)
    for graph, embedding in zip(graphs, together, strict=True):
        torch.testing.assert_close(embedding, network.encode([graph])[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("head", ["ordinal", "categorical"])
def test_an_untrained_network_returns_its_prior(head):
    graph, settings = stored(), small(head=head, prior="diagonal")
    torch.manual_seed(1)
    logits = logits_of(PartitionNetwork(settings), graph, settings)
    np.testing.assert_array_equal(logits[0].argmax(-1).numpy(), np.minimum((graph.sequence.work * 4).astype(int), 3))


def test_one_network_serves_any_number_of_chips():
    settings = small(prior="none")
    network = network_of(settings)
    assert [logits_of(network, stored(chips=chips), settings).shape[-1] for chips in (1, 4, 64)] == [1, 4, 64]


def test_logits_depend_on_the_previous_assignment():
    settings = small(prior="none")
    network = network_of(settings)
    first, second = torch.zeros(1, 24, dtype=torch.int64), torch.full((1, 24), 3)
    graph = stored()
    both = logits_of(network, graph, settings, torch.cat([first, second]))
    torch.testing.assert_close(both[:1], logits_of(network, graph, settings, first))
    assert not torch.allclose(both[0], both[1])
    assert not torch.allclose(both[:1], logits_of(network, graph, settings))


def test_the_assignment_state_is_that_computed_by_hand():
    graph = PartitionGraph(
        "three",
        ("a", "b", "c"),
        np.array([1.0, 2.0, 1.0]),
        np.ones(3),
        np.zeros(3),
        np.array([[0, 1], [0, 2]]),
        np.full(3, np.nan),
        np.full(3, np.nan),
    )
    settings = small(prior="none")
    read = tensors(StoredGraph.of(PartitionProblem(graph, 2, 1.0)), settings)
    none_yet = assignment_state(read, None)
    assert none_yet[0, :, 0].tolist() == [1, 1, 1]
    assert not none_yet[0, :, 1:].any()
    # a and b on chip 0, c on chip 1: loads 3/4 and 1/4, each twice its share at most.
    state = assignment_state(read, torch.tensor([[0, 0, 1]]))[0]
    third = 1 / 3
    expected = [
        [0, 0.25, 0, 0.5, np.log1p(1.5), 0.25, 1, 0, third, 0, third, third, third],
        [0, 0.25, 0, 0, np.log1p(1.5), 0.25, 1, 0, third, 0, third, 2 * third, 0],
        [0, 0.75, 1, 0, np.log1p(0.5), 0, third, 1, 0, third, 0, third, 0],
    ]
    np.testing.assert_allclose(state.numpy(), expected, atol=1e-6)
    # What was measured takes the place of loads; of the second partition nothing was.
    busy = torch.tensor([[[0.5, 0.25, 9.0], [1.0, 0.0, 9.0]], [[0.0] * 3] * 2])
    both = assignment_state(read, torch.tensor([[0, 0, 1], [0, 0, 1]]), busy)
    measured = np.array(expected)
    measured[:, 6:11] = [[0.5, 0, 0.25, 0, 1], [0.5, 0, 0.25, 0, 1], [0.25, 0.5, 0, 1, 0]]
    np.testing.assert_allclose(both.numpy(), [measured, expected], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_features_are_finite_and_as_many_as_their_names(seed):
    graph = random_graph(seed, 1 + 5 * seed, 0.3)
    features = StoredGraph.of(PartitionProblem(graph, 3, 1e9)).features
    assert features.shape == (len(graph), len(FEATURES))
    assert np.isfinite(features).all()


def test_features_are_those_of_the_definition():
    graph = random_graph(5, 12, 0.3)
    features = StoredGraph.of(PartitionProblem(graph, 3, 1e9)).features
    column = {name: features[:, place] for place, name in enumerate(FEATURES)}
    above = [{node} for node in range(12)]
    for node in graph.topological_order:
        for source, target in graph.edges:
            if target == node:
                above[node] |= above[source]
    total = graph.latency_s.sum()
    np.testing.assert_allclose(column["ancestors"], [len(nodes) / 12 for nodes in above], rtol=1e-6)
    expected = [sum(graph.latency_s[list(nodes)]) / total for nodes in above]
    np.testing.assert_allclose(column["work of ancestors"], expected, rtol=1e-5)
    longest = np.zeros(12)
    for node in graph.topological_order:
        before = [longest[source] for source, target in graph.edges if target == node]
        longest[node] = graph.latency_s[node] + max(before, default=0)
    np.testing.assert_allclose(column["longest work before"], longest / longest.max(), rtol=1e-5)


def gradients_of(value, inputs):
    return torch.autograd.grad(value.square().sum(), inputs)


@pytest.mark.parametrize("edges", [[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)], [(2, 0), (2, 0), (2, 1)], []])
def test_a_layer_is_two_sage_convolutions_with_their_gradients(edges):
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(0)
    (layer,) = PartitionNetwork(LearningSettings(layers=1, width=8, prior="none")).layers
    both, back = SAGEConv(8, 8), SAGEConv(8, 8, root_weight=False, bias=False)
    both.load_state_dict(layer.producers.state_dict())
    back.load_state_dict(layer.consumers.state_dict())
    count = 5
    hidden = torch.randn(count, 8, requires_grad=True)
    source, target = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    ends = torch.stack([source, target])
    mixed = both(hidden, ends) + back(hidden, ends.flip(0))
    expected = hidden + torch.relu(layer.norm(mixed))
    means = [Means.of(target, source, count, hidden), Means.of(source, target, count, hidden)]
    value = layer(hidden, *means)
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-5)
    own_inputs = [hidden, *layer.parameters()]
    inputs = [hidden, *both.parameters(), *back.parameters(), *layer.norm.parameters()]
    for own, other in zip(gradients_of(value, own_inputs), gradients_of(expected, inputs), strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("width", [8, 64, 128])
def test_a_layer_begins_with_the_weights_of_two_sage_convolutions(width):
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(3)
    own = [SageWeights(width, own=True), SageWeights(width, own=False), torch.rand(1)]
    torch.manual_seed(3)
    theirs = [SAGEConv(width, width), SAGEConv(width, width, root_weight=False, bias=False), torch.rand(1)]
    for mine, other in zip(own[:2], theirs[:2], strict=True):
        weights = other.state_dict()
        assert list(mine.state_dict()) == list(weights)
        assert all(torch.equal(weights[name], value) for name, value in mine.state_dict().items())
    assert torch.equal(own[2], theirs[2]), "the generator goes on from another place"


@pytest.mark.parametrize("head", ["ordinal", "categorical"])
def test_candidates_of_a_graph_together_have_the_distributions_and_gradients_of_each_alone(head):
    settings = small(prior="none", head=head, attention="full")
    network = network_of(settings)
    graphs = [tensors(stored(count, seed=count), settings) for count in (9, 24)]
    draws = [torch.randint(0, 4, (3, len(graph)), generator=torch.Generator().manual_seed(1)) for graph in graphs]
    together = [
        network.logits(embedding, graph, drawn)
        for graph, drawn, embedding in zip(graphs, draws, network.encode(graphs), strict=True)
    ]
    alone = []
    for graph, drawn in zip(graphs, draws, strict=True):
        for row in drawn:
            # One candidate of one graph: the whole network for itself, its last two layers on one wide input.
            (embedding,) = network.encode([graph])
            wide = torch.cat([embedding, assignment_state(graph, row[None])[0]], dim=-1)
            raw = network.outward(torch.relu(network.hidden(wide)))[None]
            alone.append(network._ordinal(raw, graph, row[None]) if network.ordinal else raw[..., :4])
    expected = [torch.cat(alone[:3]), torch.cat(alone[3:])]
    weights = list(network.parameters())
    for own, other in zip(together, expected, strict=True):
        torch.testing.assert_close(torch.softmax(own, -1), torch.softmax(other, -1), atol=1e-5, rtol=1e-4)
    losses = [sum(torch.log_softmax(each, -1)[..., 0].mean() for each in parts) for parts in (together, expected)]
    for own, other in zip(*(torch.autograd.grad(loss, weights) for loss in losses), strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
