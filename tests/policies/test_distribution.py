import numpy as np
import pytest
import torch

from dse.partition.search.proposals import normals
from policies.partition.distribution import ChipDistribution
from tests.policies.examples import stored


@pytest.fixture
def logits():
    return torch.from_numpy(np.random.default_rng(0).normal(0, 2, (3, 7, 5))).float()


def test_log_probabilities_and_entropy_are_torchs(logits):
    own, theirs = ChipDistribution.from_logits(logits), torch.distributions.Categorical(logits=logits)
    chips = theirs.sample()
    torch.testing.assert_close(own.log_probability(chips), theirs.log_prob(chips))
    torch.testing.assert_close(own.entropy(), theirs.entropy())


def test_one_distribution_serves_many_rows(logits):
    chips = torch.randint(0, 5, (4, 7), generator=torch.Generator().manual_seed(1))
    shared = ChipDistribution.from_logits(logits[:1]).log_probability(chips)
    theirs = torch.distributions.Categorical(logits=logits[0]).log_prob(chips)
    torch.testing.assert_close(shared, theirs)


def test_quantiles_end_where_probability_does():
    half = ChipDistribution.from_logits(torch.tensor([[[0.0, 0.0, -1e9, -1e9]]]))
    for quantile, chip in ((0.0, 0), (0.49, 0), (0.51, 1), (1.0, 1)):
        assert half.at(torch.tensor([[quantile]])).item() == chip


def test_a_chip_without_probability_is_never_drawn():
    gap = ChipDistribution.from_logits(torch.tensor([[[-1e9, 0.0, -1e9, 0.0]]]).expand(1, 1000, 4))
    drawn = gap.at(torch.linspace(0, 1, 1000).unsqueeze(0))
    assert set(drawn.unique().tolist()) == {1, 3}


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_every_operator_is_drawn_from_its_own_distribution(logits, correlation):
    graph = stored(count=7)
    seeds = np.arange(20_000)[:, None]
    own = ChipDistribution.from_logits(logits[:1])
    places = torch.from_numpy(normals(seeds, graph.basis(0.07), correlation)).double()
    drawn = own.at(torch.special.ndtr(places))
    shares = torch.stack([(drawn == chip).double().mean(0) for chip in range(5)], dim=-1)
    # Five standard errors of a share at 20,000 draws.
    assert (shares - own.log_probabilities[0].exp()).abs().max() < 5 * 0.5 / np.sqrt(20_000)
