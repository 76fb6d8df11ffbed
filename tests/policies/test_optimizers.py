"""Optimizers without PyTorch's compiler against PyTorch's own."""

import pytest
import torch

from policies.optimizers import Adam, AdamW


def trained(made, **options):
    """Weights after steps whose rate falls, with what the optimizer knows of them."""
    torch.manual_seed(0)
    network = torch.nn.Linear(5, 3)
    optimizer = made(network.parameters(), lr=0.1, **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    for step in range(4):
        optimizer.zero_grad()
        network(torch.arange(10.0).reshape(2, 5) + step).square().mean().backward()
        optimizer.step()
        schedule.step()
        optimizer.load_state_dict(optimizer.state_dict())
    return [*network.parameters(), *(tensor for state in optimizer.state.values() for tensor in state.values())]


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [(Adam, torch.optim.Adam, {"fused": True}), (AdamW, torch.optim.AdamW, {"weight_decay": 0.1})],
)
def test_steps_are_bit_by_bit_those_of_pytorch(ours, theirs, options):
    pairs = list(zip(trained(ours, **options), trained(theirs, **options), strict=True))
    assert len(pairs) == 2 + 2 * 3
    assert all(torch.equal(*pair) for pair in pairs)
    assert not torch.equal(pairs[0][0], trained(ours, **options | {"eps": 0.1})[0])


def test_a_closure_is_called_with_gradients_and_its_loss_is_returned():
    weight = torch.ones(2, requires_grad=True)
    optimizer = AdamW([weight])

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert (weight < 1).all()
