"""The same networks written in JAX: the same linkage groups of parameters and inputs, and the same collectives."""

import re
from pathlib import Path

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.linkage_plans import linkage_plan
from dse.parallel.plan import sent_by, split_dimensions
from dse.parallel.prices import Prices
from tests.importer.torch.traced import torch_step
from tests.parallel.problems import problem

pytest.importorskip("torch")
pytest.importorskip("jax")

from tests.importer.torch import jax_steps, steps


@pytest.fixture(params=["perceptron", "transformer"])
def both(request):
    """The step from PyTorch and the one from JAX."""
    name = request.param
    return torch_step(Path(steps.__file__), name), step_graph(parse_hlo(jax_steps.text(name), name), name)


def names(graph):
    """By value the name of each parameter and input, as PyTorch has it."""
    found = {}
    for argument in graph.arguments:
        if argument.role != "state":
            parts = re.findall(r"\['?(\w+)'?\]", argument.name) or [argument.name]
            found[argument.value] = ".".join(parts)
    return found


def groups(graph):
    """The dimensions of parameters and inputs that are split together, with whether they can be."""
    named = names(graph)
    linkage = problem(graph, "2").linkage
    found = set()
    for group in linkage.groups:
        dims = frozenset((named[value], dim) for value, dim in group.places if value in named)
        if dims:
            found.add((dims, group.size, group.allows(2)))
    return found


def test_the_same_dimensions_are_split_together(both):
    torch_groups, jax_groups = map(groups, both)
    assert torch_groups == jax_groups
    assert len(torch_groups) >= 4


@pytest.mark.parametrize("mesh", ["4", "data=2,model=2"])
@pytest.mark.parametrize("objective", ["cost", "count"])
def test_plans_without_resharding_send_the_same(both, mesh, objective):
    found = []
    for graph in both:
        posed = problem(graph, mesh, objective=objective)
        prices = Prices(posed)
        answer = linkage_plan(posed, prices)
        assert answer.value == answer.bound
        sent = [each.collective for each in sent_by(posed, prices, answer.plan)]
        found.append((sorted(sent), split_dimensions(posed, answer.plan.arguments)))
    assert found[0] == found[1]
