"""Training steps of PyTorch modules: run in numpy they give what PyTorch gives; the plan is that of the JAX step."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dse.sharding.hlo.table import step_factors
from dse.sharding.linkage import linkage
from hardware.inputs import InputError
from tests.importer.torch.interpreter import run
from tests.importer.torch.traced import torch_step

torch = pytest.importorskip("torch")

from tests.importer.torch import steps  # noqa: E402 (imports torch)

FILE = Path(steps.__file__)


@cache
def step_of(name):
    """The training step of one of the modules; it is traced once."""
    return torch_step(FILE, name)


@pytest.fixture
def written(tmp_path):
    """A file that takes one of the modules, with other settings or a loss of its own."""

    def write(name, text=""):
        path = tmp_path / "steps_of_test.py"
        path.write_text(f"from tests.importer.torch.steps import {name}, loss\n{text}\n")
        return path

    return write


def trained(name, optimizer, numbers=torch.float64):
    """Arguments of the step by name, and what replaces them with the loss, by PyTorch's own optimizers."""
    torch.manual_seed(0)
    module, inputs, *targets = getattr(steps, name)()
    module.train().to(numbers)

    def wide(tensor):
        return tensor.to(numbers) if tensor.is_floating_point() else tensor

    named = dict(inputs) if isinstance(inputs, dict) else dict(enumerate(inputs))
    named = {key: wide(tensor) for key, tensor in named.items()}
    chosen = torch.optim.Adam(module.parameters()) if optimizer == "adam" else torch.optim.SGD(
        module.parameters(), 1e-3, 0.9
    )  # fmt: skip

    def once():
        chosen.zero_grad()
        outputs = module(**named) if isinstance(inputs, dict) else module(*named.values())
        value = steps.loss(outputs, *targets) if targets else outputs
        value.backward()
        chosen.step()
        return value

    def state():
        held = {key: tensor.detach().numpy().copy() for key, tensor in module.state_dict().items()}
        for key, parameter in module.named_parameters():
            for moment, tensor in chosen.state[parameter].items():
                held["step" if moment == "step" else f"{moment}.{key}"] = tensor.detach().numpy().copy()
        return held

    once()  # the optimizers make their state in the first step
    before = state()
    value = once()
    return before, [tensor.numpy() for tensor in (*named.values(), *targets)], state(), value.item()


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["perceptron", "transformer", "packed", "stacked", "convolutions", "moved"])
def test_the_step_in_numpy_gives_what_pytorch_gives(written, name, optimizer):
    # Adam is the default, whose step other tests look at too.
    graph = step_of(name) if optimizer == "adam" else torch_step(written(name, "OPTIMIZER = 'sgd'"), name)
    before, data, after, value = trained(name, optimizer)
    kept = [argument for argument in graph.arguments if argument.role != "input"]
    inputs = iter(data)
    given = [before[each.name] if each.role != "input" else next(inputs) for each in graph.arguments]
    *results, loss = run(graph, given)
    np.testing.assert_allclose(loss, value, rtol=1e-9)
    assert len(kept) == len(results) == len(after)
    for argument, result in zip(kept, results, strict=True):
        np.testing.assert_allclose(result, after[argument.name], rtol=1e-6, atol=1e-10, err_msg=argument.name)


@pytest.mark.parametrize("name", ["perceptron", "transformer", "packed", "stacked", "convolutions", "moved"])
def test_every_operation_has_a_rule(name):
    graph = step_of(name)
    unknown = [each.opcode for each, rule in zip(graph.operations, step_factors(graph), strict=True) if rule is None]
    assert unknown == []


@pytest.mark.parametrize("name", ["transformer", "packed", "stacked"])
def test_the_batch_of_a_transformer_can_be_split(name):
    graph = step_of(name)
    groups = linkage(graph).groups
    for argument in graph.arguments:
        if argument.role == "input":
            assert [each.allows(2) for each in groups if (argument.value, 0) in each.places] == [True]


FAULTY = """
import torch
from torch import nn

def needs(microbatch):
    return nn.Linear(2, 2), torch.zeros(3, 2)

def no_loss():
    return nn.Linear(2, 2), torch.zeros(3, 2)

def no_module():
    return torch.zeros(2)

def data_dependent():
    class Chosen(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return x[x > 0].sum() * self.weight.sum()

    return Chosen(), torch.zeros(3)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("needs", "needs: microbatch: the function must have no parameters"),
        ("no_loss", "must return its loss"),
        ("no_module", r"\(module, example inputs\) for PyTorch"),
        ("missing", "no function with this name"),
        ("data_dependent", "line 21"),
    ],
)
def test_modules_that_are_no_step_are_refused_in_one_line(tmp_path, name, words):
    path = tmp_path / "faulty.py"
    path.write_text(FAULTY)
    with pytest.raises(InputError, match=words):
        torch_step(path, name)


def test_an_unknown_optimizer_is_refused(written):
    with pytest.raises(InputError, match=r"OPTIMIZER.*no optimizer of this name; known: adam, sgd"):
        torch_step(written("perceptron", "OPTIMIZER = 'adamw'"), "perceptron")


def test_what_has_no_counterpart_is_kept_without_a_rule(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n"
        "def sums():\n"
        "    class Sums(nn.Module):\n"
        "        def __init__(self):\n"
        "            super().__init__()\n"
        "            self.weight = nn.Parameter(torch.zeros(4, 6))\n"
        "        def forward(self, x):\n"
        "            return (x * self.weight.cumsum(1)).sigmoid().sum()\n"
        "    return Sums(), torch.zeros(4, 6)\n"
    )
    graph = torch_step(path, "sums")
    rules = step_factors(graph)
    unknown = {each.opcode for each, rule in zip(graph.operations, rules, strict=True) if rule is None}
    assert unknown == {"aten.cumsum"}
    assert [argument.role for argument in graph.arguments] == ["parameter", "state", "state", "state", "input"]
