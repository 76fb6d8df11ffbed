"""Adam goes on from its state as if it had not stopped, also where the state's numbers have become tensors."""

import pytest
import torch

from policies.learning.rllib.optimizer import FusedAdam


def as_tensors(value):
    """``value`` as Ray 2.50 hands it over."""
    if isinstance(value, dict):
        return {key: as_tensors(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(as_tensors, value))
    return value if value is None else torch.as_tensor(value)


def step(weight, optimizer):
    optimizer.zero_grad()
    (weight**2).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("handed_over", [lambda state: state, as_tensors])
def test_it_goes_on_from_its_state(handed_over):
    one = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = FusedAdam([one])
    for _ in range(3):
        step(one, optimizer)
    other = torch.nn.Parameter(one.detach().clone())
    resumed = FusedAdam([other])
    resumed.load_state_dict(handed_over(optimizer.state_dict()))
    assert resumed.state[other].keys() == {"step", "exp_avg", "exp_avg_sq"}
    step(one, optimizer)
    step(other, resumed)
    for name, value in optimizer.state[one].items():
        torch.testing.assert_close(resumed.state[other][name], value)
    torch.testing.assert_close(other, one)
    assert resumed.param_groups[0]["betas"] == (0.9, 0.999)
