"""Networks: what must not change their answer, what they learn, and checkpoints."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from dse.fabric.model import Pipeline, Placement
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import random_sites
from hardware.inputs import InputError
from hardware.operator_slots import KINDS
from policies.fabric.model.checkpoint import COST, load_for
from policies.fabric.model.contention import contention_features
from policies.fabric.model.cost import LearnedCost
from policies.fabric.model.encoding import OPERATIONS, Encoder
from policies.fabric.model.ensemble import SHARE, EnsembleLearner
from policies.fabric.model.examples import Examples
from policies.fabric.model.features import Featurizer
from policies.fabric.model.messages import Incidence, soft_maximum
from policies.fabric.model.network import GraphNetwork, batched
from policies.fabric.model.paper import PaperLearner, PaperNetwork, PaperSettings
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.training import NetworkLearner, loss
from policies.learning.checkpoint import Checkpoint
from tests.fabric.cases import PLASTICINE, SMALL, layered_pipeline, placed, random_pipeline
from tests.policies.fabric.quick import QUICK_STACK

TINY = CostSettings(layers=1, width=8, epochs=2, graphs_in_batch=4)
NETWORKS = {
    "graph": lambda: GraphNetwork(TINY),
    "paper": lambda: PaperNetwork(PaperSettings(width=8)),
    "paper, max": lambda: PaperNetwork(PaperSettings(width=8, aggregation="max", pooling="max")),
}


def batch_of(cases):
    """A batch of (pipeline, placement) on the small fabric."""
    featurizers = [Featurizer(pipeline, SMALL) for pipeline, _ in cases]
    features = [
        np.concatenate((each(placement), contention_features(each, placement)))
        for each, (_, placement) in zip(featurizers, cases, strict=True)
    ]
    encodings = [
        Encoder(each, operators(each.pipeline))(placement)
        for each, (_, placement) in zip(featurizers, cases, strict=True)
    ]
    return batched(encodings, torch.tensor(np.array(features), dtype=torch.float32))


def operators(pipeline):
    """A kind of operator for each unit, by its slots of work."""
    return tuple(KINDS[unit.work_slots % 5] for unit in pipeline.units)


def cases(count=5):
    random = np.random.default_rng(3)
    pipelines = [random_pipeline(random, SMALL) for _ in range(count)]
    return [(pipeline, placed(pipeline, SMALL, random)) for pipeline in pipelines]


def disturbed(made):
    """A network whose last layers, which begin with zeros, have random weights."""
    torch.manual_seed(0)
    network = made()
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(0.3 * torch.randn_like(weights))
    return network.eval()


def test_links_and_routes_are_those_of_the_placement():
    """Hops by a walk from the source; loads and flows by counting who passes."""
    for pipeline, placement in cases(8):
        encoding = Encoder(Featurizer(pipeline, SMALL))(placement)
        grid, first, links = SMALL.grid, placement.route_first.tolist(), placement.route_link.tolist()
        cell = grid.site_cell[placement.site].tolist()
        hops, load, flows = [], dict.fromkeys(sorted(set(links)), 0), dict.fromkeys(sorted(set(links)), 0)
        for number, net in enumerate(pipeline.nets):
            own = links[first[number] : first[number + 1]]
            came_by = {int(grid.link_to[link]): int(grid.link_from[link]) for link in own}
            for sink in net.sinks:
                here, steps = cell[sink.unit], 0
                while here != cell[net.source]:
                    here, steps = came_by[here], steps + 1
                hops.append(steps)
            for link in own:
                load[link] += net.flits
                flows[link] += 1
        base = Featurizer(pipeline, SMALL).case.slowest
        np.testing.assert_allclose(encoding.route[:, 1], np.log1p(hops), rtol=1e-5)
        np.testing.assert_allclose(
            encoding.link[:, 1], np.log(np.maximum(np.array([*load.values()]) / base, 0.01)), 1e-5
        )
        np.testing.assert_allclose(encoding.link[:, 2], np.log([*flows.values()]), rtol=1e-5)
        assert [list(load)[place] for place in encoding.crossing_link] == links


@pytest.mark.parametrize("name", NETWORKS)
def test_a_placement_in_company_has_the_answer_that_it_has_alone(name):
    network, all_cases = disturbed(NETWORKS[name]), cases()
    together = network(batch_of(all_cases))
    alone = torch.cat([network(batch_of([each])) for each in all_cases])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_order_of_units_and_nets_does_not_matter(name):
    network, ((pipeline, placement),) = disturbed(NETWORKS[name]), cases(1)
    random = np.random.default_rng(0)
    units, nets = (random.permutation(len(each)) for each in (pipeline.units, pipeline.nets))
    place = np.argsort(units).tolist()
    renumbered = Pipeline(
        tuple(pipeline.units[unit] for unit in units),
        tuple(
            replace(net, source=place[net.source], sinks=tuple(replace(s, unit=place[s.unit]) for s in net.sinks))
            for net in (pipeline.nets[number] for number in nets)
        ),
    )
    moved = Placement.of(placement.site[units].tolist(), [placement.route(int(net)) for net in nets])
    answers = network(batch_of([(pipeline, placement), (renumbered, moved)]))
    torch.testing.assert_close(answers[0], answers[1], rtol=1e-4, atol=1e-5)


def test_sums_over_nodes_against_loops_and_their_gradients_against_differences():
    torch.manual_seed(0)
    values, row, column = torch.randn(7, 3), torch.randint(0, 5, (20,)), torch.randint(0, 7, (20,))
    row[row == 4] = 0
    met = Incidence(row, column, 5, 7)
    for number in range(5):
        own, nothing = values[column[row == number]], torch.zeros(3)
        torch.testing.assert_close(met.sum(values)[number], own.sum(0) if len(own) else nothing)
        torch.testing.assert_close(met.mean(values)[number], own.mean(0) if len(own) else nothing)
        torch.testing.assert_close(met.max(values)[number], own.amax(0) if len(own) else nothing)
        torch.testing.assert_close(met.log_sum(values)[number], torch.log1p(own.exp().sum(0)))
        if len(own):
            expected = torch.logsumexp(own[:, 0], 0)
            torch.testing.assert_close(soft_maximum(values[column, 0], row, 5)[number], expected)
    back = torch.zeros(7, 3).index_add(0, column, torch.ones(20, 3))
    asked = values.clone().requires_grad_()
    torch.autograd.backward(met.sum(asked).sum())
    torch.testing.assert_close(asked.grad, back)
    torch.testing.assert_close(met.turned.sum(torch.ones(5, 3)), back)
    assert met.turned.turned is met


def test_stages_are_the_longest_paths_of_nets_and_unknown_operators_have_a_number():
    for pipeline, placement in cases(8):
        encoding = Encoder(Featurizer(pipeline, SMALL), ("gemm",) * len(pipeline.units))(placement)
        before = {unit: [] for unit in range(len(pipeline.units))}
        for net in pipeline.nets:
            for sink in net.sinks:
                before[sink.unit].append(net.source)

        def depth(unit, before=before):
            return max((depth(each) + 1 for each in before[unit]), default=0)

        assert encoding.stage.tolist() == [depth(unit) for unit in before]
        assert encoding.stage.max() + 1 == pipeline.stages
        assert {OPERATIONS[number] for number in encoding.operation} == {"gemm"}
        unknown = Encoder(Featurizer(pipeline, SMALL))(placement)
        assert {OPERATIONS[number] for number in unknown.operation} == {"unknown"}


UNIT, EDGE = ("unit", "operation", "stage"), ("net", "route", "link")


@pytest.mark.parametrize(
    ("of", "denied", "kinds"),
    [
        (lambda **denied: GraphNetwork(replace(TINY, **denied)), "unit_features", UNIT),
        (lambda **denied: GraphNetwork(replace(TINY, **denied)), "edge_features", EDGE),
        (lambda **denied: GraphNetwork(replace(TINY, **denied)), "hand_features", ("features",)),
        (lambda **denied: PaperNetwork(PaperSettings(width=8, **denied)), "node_embeddings", UNIT),
        (lambda **denied: PaperNetwork(PaperSettings(width=8, **denied)), "edge_embeddings", EDGE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_network_is_denied_does_not_reach_it(of, denied, kinds):
    batch = batch_of(cases())
    other = batch._replace(**{kind: torch.randn_like(getattr(batch, kind)) for kind in kinds if kind not in UNIT[1:]})
    other = other._replace(**{kind: getattr(batch, kind).flip(0) for kind in kinds if kind in UNIT[1:]})
    blind, seeing = disturbed(lambda: of(**{denied: False})), disturbed(of)
    torch.testing.assert_close(blind(batch), blind(other))
    assert not torch.allclose(seeing(batch), seeing(other), atol=1e-3)


def test_a_network_that_has_learned_nothing_names_the_slowest_resource():
    all_cases = cases()
    slowest = [
        -max(encoding.unit[:, 4].max(), encoding.net[:, 4].max(), encoding.link[:, 0].max())
        for encoding in (Encoder(Featurizer(pipeline, SMALL))(placement) for pipeline, placement in all_cases)
    ]
    answers = GraphNetwork(TINY)(batch_of(all_cases))
    torch.testing.assert_close(answers, torch.tensor(slowest), atol=1e-5, rtol=0)


def test_the_loss_on_ranks_counts_pairs_of_one_graph_only():
    target, graph = torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([0, 0, 1, 1])
    ordered, turned = torch.tensor([0.0, 0.2, 0.5, 0.7]), torch.tensor([0.2, 0.0, 0.7, 0.5])
    rank = [loss(each, target, graph, 1.0) - loss(each, target, graph, 0.0) for each in (ordered, turned)]
    assert rank[0] < rank[1]
    apart = torch.arange(4)
    torch.testing.assert_close(loss(turned, target, apart, 1.0), loss(turned, target, apart, 0.0))


@cache
def learned_from(graphs, seed, placements=4):
    """Placements of layered pipelines, labelled with the most loaded link beside the slowest unit."""
    random = np.random.default_rng(seed)
    features, encodings, target, graph, contention = [], [], [], [], []
    for number in range(graphs):
        pipeline = layered_pipeline(random, copies=1, layers=2, width=3)
        featurizer = Featurizer(pipeline, PLASTICINE)
        encoder = Encoder(featurizer)
        for _ in range(placements):
            site = random_sites(pipeline, PLASTICINE, random)
            placement = routed(pipeline, site, PLASTICINE, "xy")
            encodings.append(encoder(placement))
            features.append(featurizer(placement))
            contention.append(contention_features(featurizer, placement))
            target.append(-float(np.logaddexp(0.0, encodings[-1].link[:, 1].max() + 0.5)))
            graph.append(number)
    return Examples(np.array(features), np.array(target), np.array(graph), tuple(encodings), np.array(contention))


PASSES = {"epochs": 8, "graphs_in_batch": 4, "learning_rate": 2e-2}


def assert_learned(learner, seen, unseen):
    model = learner.fit(seen)
    error = np.abs(model.predict(unseen) - unseen.target).mean()
    assert error < 0.7 * np.abs(unseen.target - seen.target.mean()).mean()


def test_a_network_learns_the_busiest_link_better_than_the_mean():
    settings = CostSettings(layers=1, width=12, hand_features=False, **PASSES)
    assert_learned(NetworkLearner(settings), learned_from(12, 0), learned_from(6, 1))


@pytest.mark.parametrize("target", ["logarithm", "throughput"])
def test_the_papers_model_learns_the_length_of_routes_better_than_the_mean(target):
    """It does not see who shares a link."""
    random = np.random.default_rng(0)

    def stretched(examples):
        by = random.uniform(0, 2, len(examples))
        encodings = (
            each._replace(route=np.float32(many) * each.route)
            for each, many in zip(examples.encodings, by, strict=True)
        )
        return replace(examples, encodings=tuple(encodings), target=-by)

    learner = PaperLearner(PaperSettings(layers=1, width=12, target=target, **PASSES | {"epochs": 20}))
    assert_learned(learner, stretched(learned_from(12, 0)), stretched(learned_from(6, 1)))


@pytest.fixture(scope="module")
def ensemble():
    return EnsembleLearner(replace(TINY, members=2), stack=QUICK_STACK).fit(learned_from(6, 0))


def test_members_differ_and_their_mean_shares_the_prediction_with_the_stack(ensemble):
    unseen = learned_from(2, 1)
    members, share = [network.predict(unseen) for network in ensemble.networks], ensemble.share
    expected = share * np.mean(members, axis=0) + (1 - share) * ensemble.stack.predict(unseen)
    np.testing.assert_allclose(ensemble.predict(unseen), expected)
    assert share == SHARE
    assert (np.std(members, axis=0) > 0).all()


def test_networks_without_the_stack_predict_alone():
    seen, unseen = learned_from(6, 0), learned_from(2, 1)
    alone = EnsembleLearner(replace(TINY, with_stack=False), stack=QUICK_STACK).fit(seen)
    (network,) = alone.networks
    np.testing.assert_array_equal(alone.predict(unseen), network.predict(unseen))


def test_the_same_seed_learns_the_same_and_another_does_not(ensemble):
    unseen = learned_from(2, 1)
    again, other = (
        EnsembleLearner(replace(TINY, members=2), seed, stack=QUICK_STACK).fit(learned_from(6, 0)) for seed in (0, 7)
    )
    np.testing.assert_array_equal(again.predict(unseen), ensemble.predict(unseen))
    assert not np.array_equal(other.predict(unseen), ensemble.predict(unseen))


PROVENANCE = {"samples": {"simulator": "sha256:one", "operator_slots": "sha256:two"}}


def test_a_checkpoint_gives_the_same_predictions(ensemble, tmp_path):
    settings, unseen = replace(TINY, members=2), learned_from(2, 1)
    COST.save(tmp_path, Checkpoint(settings, ensemble.tensors(), PROVENANCE))
    back = load_for(tmp_path, PROVENANCE["samples"])
    assert back.settings == settings
    restored = type(ensemble).of(back.settings, back.tensors)
    np.testing.assert_array_equal(restored.predict(unseen), ensemble.predict(unseen))


def test_without_networks_the_stack_predicts(tmp_path):
    settings, unseen = replace(TINY, members=0), learned_from(2, 1)
    alone = EnsembleLearner(settings, stack=QUICK_STACK).fit(learned_from(6, 0))
    mean = alone.predict(unseen)
    np.testing.assert_array_equal(mean, alone.stack.predict(unseen))
    COST.save(tmp_path, Checkpoint(settings, alone.tensors(), PROVENANCE))
    back = load_for(tmp_path, PROVENANCE["samples"])
    np.testing.assert_array_equal(type(alone).of(back.settings, back.tensors).predict(unseen), mean)


@pytest.mark.parametrize("name", ["simulator", "operator_slots"])
def test_a_checkpoint_for_something_else_is_refused(ensemble, tmp_path, name):
    COST.save(tmp_path, Checkpoint(replace(TINY, members=2), ensemble.tensors(), PROVENANCE))
    with pytest.raises(InputError, match=f"provenance.samples.{name}"):
        load_for(tmp_path, PROVENANCE["samples"] | {name: "sha256:other"})


def test_settings_outside_their_range_are_refused():
    for values in (
        {"layers": 0},
        {"members": -1},
        {"width": "8"},
        {"hand_features": 1},
        {"learning_rate": -1.0},
        {"unknown": 1},
    ):
        with pytest.raises(ValueError, match=next(iter(values))):
            CostSettings.from_document(TINY.document() | values)


def test_a_cost_ranks_placements_by_the_slots_that_it_expects(ensemble):
    random = np.random.default_rng(5)
    pipeline = layered_pipeline(random, copies=1, layers=2, width=3)
    placements = [routed(pipeline, random_sites(pipeline, PLASTICINE, random), PLASTICINE, "xy") for _ in range(4)]
    cost = LearnedCost(ensemble, pipeline, PLASTICINE)
    expected = cost.interval_slots(placements)
    assert cost.ranked(placements) == sorted(range(4), key=lambda number: expected[number])
