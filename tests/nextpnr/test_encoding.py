"""Placed netlists in the form that the network of ``policies.fabric`` takes."""

import numpy as np
import pytest

from benchmarks.nextpnr import learned
from benchmarks.nextpnr.delay_terms import levels_and_distances
from benchmarks.nextpnr.encoding import MIN_SHARE, columns_of, encoding, hand_features
from benchmarks.nextpnr.path_model import fit
from benchmarks.nextpnr.samples import samples_of
from policies.fabric.model.encoding import LINK_FEATURES, NET_FEATURES, ROUTE_FEATURES, UNIT_FEATURES
from policies.fabric.model.ensemble import EnsembleLearner
from policies.fabric.model.features import FEATURES
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.model.settings import CostSettings
from tests.nextpnr.outputs import chain_run
from tests.policies.fabric.quick import QUICK_STACK

FAMILIES = {"short": (1, 2, 3), "middle": (4, 5, 6), "long": (8, 9, 11)}


@pytest.fixture(scope="module")
def samples():
    return samples_of(
        [chain_run(name, length, step) for name, all_ in FAMILIES.items() for length in all_ for step in (1, 3)]
    )


def test_slots_are_in_their_own_column():
    table = columns_of(("a", "slots", "b", "c"), np.array([5.0, 6.0]), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    assert table.tolist() == [[1, 5, 3, 0], [2, 6, 4, 0]]
    with pytest.raises(ValueError, match=r"`features <= 1` must hold beside the slots, but got 2"):
        columns_of(("slots", "a"), np.zeros(1), [np.zeros(1), np.zeros(1)])


def test_indices_and_shapes(samples):
    model = fit(samples, levels_and_distances())
    for sample in samples:
        result, cells = encoding(sample, model), len(sample.run.netlist.kinds)
        assert result.unit.shape == (cells, len(UNIT_FEATURES))
        assert result.net.shape == (cells - 1, len(NET_FEATURES))
        assert result.route.shape == (cells - 1, len(ROUTE_FEATURES))
        assert result.link.shape == (cells, len(LINK_FEATURES))
        assert result.net_source.tolist() == result.route_net.tolist() == list(range(cells - 1))
        assert result.route_sink.tolist() == list(range(1, cells))
        ends = sorted(zip(result.crossing_net.tolist(), result.crossing_link.tolist(), strict=True))
        assert ends == sorted((net, tile) for net in range(cells - 1) for tile in (net, net + 1))


def test_every_cell_of_a_chain_is_on_the_longest_path(samples):
    model = fit(samples, levels_and_distances())
    result = encoding(samples[-1], model)
    assert result.unit[:, UNIT_FEATURES.index("slots")] == pytest.approx(0, abs=1e-5)
    assert result.net[:, NET_FEATURES.index("slots")] == pytest.approx(0, abs=1e-5)
    assert result.link[:, LINK_FEATURES.index("slots")] == pytest.approx(np.log(MIN_SHARE))
    features = hand_features(samples[-1], model)
    assert features.shape == (len(FEATURES),)
    assert features[0] == pytest.approx(np.log(model.period_ns(samples[-1])))
    assert features[1] == pytest.approx(11)


QUICK = EnsembleLearner(CostSettings(epochs=2, width=8), stack=QUICK_STACK)


@pytest.mark.parametrize("learner", [RidgeLearner(), QUICK])
def test_what_the_model_of_paths_misses_is_learned(samples, learner):
    method = learned.Learned(learner, levels_and_distances(), learned.log_estimate)
    train = [sample for sample in samples if sample.run.family != "middle"]
    test = [sample for sample in samples if sample.run.family == "middle"]
    predicted = method(train, test)
    assert predicted == pytest.approx([sample.period_ns for sample in test], rel=0.1)
