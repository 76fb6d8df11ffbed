"""Networks: what must not change their answer, what they learn, and checkpoints."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dse.fabric.model import Pipeline, Placement  # noqa: E402
from dse.fabric.search.routing import routed  # noqa: E402
from dse.fabric.search.sites import random_sites  # noqa: E402
from hardware.inputs import InputError  # noqa: E402
from policies.fabric.model.checkpoint import COST, load_for  # noqa: E402
from policies.fabric.model.contention import contention_features  # noqa: E402
from policies.fabric.model.cost import LearnedCost  # noqa: E402
from policies.fabric.model.encoding import Encoder  # noqa: E402
from policies.fabric.model.ensemble import EnsembleLearner  # noqa: E402
from policies.fabric.model.examples import Examples  # noqa: E402
from policies.fabric.model.features import Featurizer  # noqa: E402
from policies.fabric.model.network import batched, max_over, mean_over, network_of, soft_maximum  # noqa: E402
from policies.fabric.model.settings import PAPER, CostSettings  # noqa: E402
from policies.fabric.model.training import NetworkLearner, loss  # noqa: E402
from policies.learning.checkpoint import Checkpoint  # noqa: E402
from tests.fabric.cases import PLASTICINE, SMALL, layered_pipeline, placed, random_pipeline  # noqa: E402
from tests.policies.fabric.quick import QUICK_STACK  # noqa: E402

TINY = CostSettings(layers=1, width=8, epochs=2, graphs_in_batch=4)


def batch_of(cases):
    """A batch of (pipeline, placement) on the small fabric."""
    featurizers = [Featurizer(pipeline, SMALL) for pipeline, _ in cases]
    features = np.array([each(placement) for each, (_, placement) in zip(featurizers, cases, strict=True)])
    encodings = [Encoder(each)(placement) for each, (_, placement) in zip(featurizers, cases, strict=True)]
    return batched(encodings, torch.tensor(features, dtype=torch.float32), torch.zeros(len(cases)))


def cases(count=5):
    random = np.random.default_rng(3)
    pipelines = [random_pipeline(random, SMALL) for _ in range(count)]
    return [(pipeline, placed(pipeline, SMALL, random)) for pipeline in pipelines]


def disturbed(settings):
    """A network whose last layers, which begin with zeros, have random weights."""
    torch.manual_seed(0)
    network = network_of(settings)
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


@pytest.mark.parametrize("settings", [TINY, PAPER], ids=["resources", "paper"])
def test_a_placement_in_company_has_the_answer_that_it_has_alone(settings):
    network, all_cases = disturbed(settings), cases()
    together = network(batch_of(all_cases))
    alone = torch.cat([network(batch_of([each])) for each in all_cases])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [TINY, PAPER], ids=["resources", "paper"])
def test_the_order_of_units_and_nets_does_not_matter(settings):
    network, ((pipeline, placement),) = disturbed(settings), cases(1)
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


def test_sums_over_nodes_against_loops():
    torch.manual_seed(0)
    values, index = torch.randn(20, 3), torch.randint(0, 5, (20,))
    index[index == 4] = 0
    for number in range(5):
        own = values[index == number]
        empty = torch.zeros(3)
        torch.testing.assert_close(mean_over(values, index, 5)[number], own.mean(0) if len(own) else empty)
        torch.testing.assert_close(max_over(values, index, 5)[number], own.amax(0) if len(own) else empty)
        if len(own):
            expected = torch.logsumexp(own[:, 0], 0)
            torch.testing.assert_close(soft_maximum(values[:, 0], index, 5)[number], expected)


@pytest.mark.parametrize("denied", ["unit_features", "edge_features"])
def test_what_a_network_is_denied_does_not_reach_it(denied):
    batch = batch_of(cases())
    changed = {"unit_features": ("unit",), "edge_features": ("net", "route", "link")}[denied]
    other = batch._replace(**{kind: torch.randn_like(getattr(batch, kind)) for kind in changed})
    blind, seeing = disturbed(replace(TINY, **{denied: False})), disturbed(TINY)
    torch.testing.assert_close(blind(batch), blind(other))
    assert not torch.allclose(seeing(batch), seeing(other), atol=1e-3)


def test_a_network_that_has_learned_nothing_leaves_the_stack_as_it_is():
    batch = batch_of(cases())
    offset = torch.linspace(-1, 1, len(batch.features))
    torch.testing.assert_close(network_of(TINY)(batch._replace(offset=offset)), offset, atol=1e-5, rtol=0)


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


def test_a_network_learns_what_it_can_see_better_than_the_mean():
    settings = CostSettings(layers=1, width=12, epochs=8, on_stack=False, graphs_in_batch=4, learning_rate=2e-2)
    seen, unseen = learned_from(12, 0), learned_from(6, 1)
    model = NetworkLearner(settings).fit(seen)
    error = np.abs(model.predict(unseen) - unseen.target).mean()
    assert error < 0.7 * np.abs(unseen.target - seen.target.mean()).mean()


@pytest.fixture(scope="module")
def ensemble():
    return EnsembleLearner(replace(TINY, members=2), stack=QUICK_STACK).fit(learned_from(6, 0))


def test_members_differ_and_their_mean_is_the_prediction(ensemble):
    unseen = learned_from(2, 1)
    members = [network.predict(unseen) for network in ensemble.networks]
    np.testing.assert_allclose(ensemble.predict(unseen), np.mean(members, axis=0))
    assert (np.std(members, axis=0) > 0).all()


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
        {"form": "other"},
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
