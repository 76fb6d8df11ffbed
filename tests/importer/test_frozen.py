"""Models with frozen parameters: memory, what is kept, and FLOPs, in closed form and as autograd counts them."""

import importlib.util
import json

import pytest
import torch

from dse.codesign.check import _placement_problem
from dse.codesign.evaluation.job_placements import Choice, JobPlacements
from dse.codesign.options import CodesignOptions
from dse.models.recipe import TrainingRecipe
from dse.placement.check import group_memory_bytes
from dse.placement.problem import Stage
from dse.sources.imported import ImportedModel
from dse.sources.kinds import PythonFunction

RECIPE = TrainingRecipe(fuse=False)
M, WIDTH, INNER, CLASSES, RANK, BLOCKS = 2, 64, 256, 8, 4, 6
VOCABULARY, POSITIONS, TOKENS = 100, 40, 16

FROZEN_BODY = f"""
import torch
from torch import nn

def body():
    blocks = [
        nn.Sequential(nn.Linear({WIDTH}, {INNER}, bias=False), nn.ReLU(), nn.Linear({INNER}, {WIDTH}, bias=False))
        for _ in range({BLOCKS})
    ]
    return nn.Sequential(*blocks).requires_grad_(False)

def model(microbatch):
    return nn.Sequential(body(), nn.Linear({WIDTH}, {CLASSES})), torch.randn(microbatch, {WIDTH})
"""

LORA = f"""
import torch
from torch import nn

class Adapted(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down, self.up = nn.Linear(inputs, {RANK}, bias=False), nn.Linear({RANK}, outputs, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))

def model(microbatch):
    net = nn.Sequential(Adapted({WIDTH}, {INNER}), nn.ReLU(), nn.Linear({INNER}, {CLASSES}))
    net[2].requires_grad_(False)
    return net, torch.randn(microbatch, {WIDTH})
"""

FROZEN_EMBEDDING = f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding({VOCABULARY}, {WIDTH}), nn.Embedding({POSITIONS}, {WIDTH})
        self.tokens.requires_grad_(False)
        self.positions.requires_grad_(False)
        self.head = nn.Linear({WIDTH}, {CLASSES}, bias=False)

    def forward(self, tokens):
        return self.head(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))

def model(microbatch):
    return Net(), torch.zeros(microbatch, {TOKENS}, dtype=torch.long)
"""

TIED_TABLE = f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding({VOCABULARY}, {WIDTH}).requires_grad_(False)
        blocks = [nn.Sequential(nn.Linear({WIDTH}, {INNER}), nn.GELU(), nn.Linear({INNER}, {WIDTH})) for _ in range(4)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, tokens):
        return self.blocks(self.table(tokens)) @ self.table.weight.T

def model(microbatch):
    return Net(), torch.zeros(microbatch, {TOKENS}, dtype=torch.long)
"""

BRANCHES = f"""
import torch
from torch import nn

def tower():
    return nn.Sequential(*[nn.Sequential(nn.Linear({WIDTH}, {WIDTH}), nn.Tanh()) for _ in range(4)])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.trained, self.head = tower().requires_grad_(False), tower(), nn.Linear({WIDTH}, {CLASSES})

    def forward(self, x):
        return self.head(self.frozen(x) * self.trained(x))

def model(microbatch):
    return Net(), torch.randn(microbatch, {WIDTH})
"""

CONVOLUTIONS = f"""
import torch
from torch import nn

def model(microbatch):
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()).requires_grad_(False)
    biased = nn.Conv2d(8, 8, 3, padding=1)
    biased.weight.requires_grad_(False)
    frozen = nn.Conv2d(8, 8, 3, padding=1).requires_grad_(False)
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, {CLASSES}))
    return nn.Sequential(stem, biased, nn.ReLU(), frozen, nn.GroupNorm(2, 8), head), torch.randn(microbatch, 3, 12, 12)
"""
"""A frozen stem with its norm, a convolution of which only the bias is trained, a frozen one behind it."""

BIASES = f"""
import torch
from torch import nn

def model(microbatch):
    blocks = [nn.Sequential(nn.Linear({WIDTH}, {WIDTH}), nn.LayerNorm({WIDTH}), nn.GELU()) for _ in range(4)]
    net = nn.Sequential(*blocks)
    for name, weight in net.named_parameters():
        weight.requires_grad_(name.endswith("bias"))
    return net, torch.randn(microbatch, {WIDTH})
"""
"""BitFit: only biases are trained."""

JOINED = f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear({WIDTH}, {WIDTH}, bias=False)
        self.query, self.key = (nn.Linear({WIDTH}, {INNER}, bias=False).requires_grad_(False) for _ in range(2))

    def forward(self, x):
        return nn.functional.linear(self.first(x), torch.cat([self.query.weight, self.key.weight]))

def model(microbatch):
    return Net(), torch.randn(microbatch, {WIDTH})
"""
"""Two frozen weights that are read side by side, as one."""

ROUTED = f"""
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.router = nn.Linear({WIDTH}, {WIDTH}), nn.Linear({WIDTH}, 4).requires_grad_(False)
        self.experts = nn.Embedding(4, {WIDTH})

    def forward(self, x):
        x = self.first(x)
        return x + self.experts(self.router(x).argmax(-1))

def model(microbatch):
    return Net(), torch.randn(microbatch, {WIDTH})
"""
"""A product behind a trained weight that no gradient comes back to: only its largest result is read."""

SOURCES = {
    "joined": JOINED,
    "routed": ROUTED,
    "convolutions": CONVOLUTIONS,
    "biases": BIASES,
    "frozen_body": FROZEN_BODY,
    "lora": LORA,
    "frozen_embedding": FROZEN_EMBEDDING,
    "tied_table": TIED_TABLE,
    "branches": BRANCHES,
}

BODY = BLOCKS * 2 * WIDTH * INNER
"""Parameters of the frozen body."""


@pytest.fixture
def written(tmp_path):
    def write(name):
        path = tmp_path / f"{name}.py"
        path.write_text(SOURCES[name])
        return path

    return write


@pytest.fixture
def graph(written):
    """The graph of a source at microbatch M and some tensor-parallel width."""
    return lambda name, width=1: ImportedModel(PythonFunction(written(name), "model")).graph(M, width, RECIPE)


def real(path, microbatch):
    """The module and its input, on the meta device."""
    spec = importlib.util.spec_from_file_location("real", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.device("meta"):
        return module.model(microbatch)


def total(graph, field):
    return sum(getattr(layer, field) for layer in graph.layers)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_flops_are_those_that_autograd_runs(name, written, graph):
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = real(written(name), M)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model(inputs).sum().backward()
    ours = graph(name)
    assert M * ours.flops_per_sample == counter.get_total_flops()
    assert sum(layer.forward.flops + layer.backward.flops for layer in ours.layers) == counter.get_total_flops()


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_parameter_is_counted_once_and_updated_only_where_it_is_trained(name, written, graph):
    model, _ = real(written(name), M)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    ours = graph(name)
    assert (ours.parameters, ours.frozen_parameters) == (trained, frozen)
    assert total(ours, "weight_bytes") == 2 * trained
    updated = sum(operator.operation.elements for layer in ours.layers for operator in layer.update)
    assert updated == trained
    if name != "tied_table":
        assert total(ours, "frozen_bytes") == 2 * frozen


def test_a_frozen_body_keeps_nothing_and_is_many_layers(graph):
    ours = graph("frozen_body")
    assert total(ours, "activation_bytes") == M * WIDTH * 2, "the head's input, for its weight gradient"
    assert ours.flops_per_sample == 2 * BODY + 2 * 2 * WIDTH * CLASSES
    assert max(layer.frozen_bytes for layer in ours.layers) <= 2 * BODY / BLOCKS
    assert all(not len(layer.backward) for layer in ours.layers if not layer.parameters)


def test_lora_keeps_activations_and_no_weights(graph):
    ours = graph("lora")
    kept = M * (WIDTH + RANK + INNER) * 2  # inputs of down and of up, the output of relu
    assert total(ours, "activation_bytes") == kept
    first, adapter, head = 2 * WIDTH * INNER, 2 * RANK * (WIDTH + INNER), 2 * INNER * CLASSES
    # The input takes no gradient, so that ``down`` has the gradient of its weights alone.
    assert ours.flops_per_sample == first + adapter * 3 - 2 * WIDTH * RANK + head * 2


def test_frozen_weights_that_are_read_as_one_are_not_kept(graph):
    assert total(graph("joined"), "activation_bytes") == M * WIDTH * 2, "the input of the trained weight"


def test_frozen_tables_are_in_memory_whole(graph):
    ours = graph("frozen_embedding")
    assert ours.frozen_parameters == (VOCABULARY + POSITIONS) * WIDTH
    assert total(ours, "activation_bytes") == M * TOKENS * WIDTH * 2
    assert ours.flops_per_sample == 2 * 2 * TOKENS * WIDTH * CLASSES


def test_a_frozen_weight_of_two_layers_is_one_parameter_in_both_memories(graph):
    ours = graph("tied_table")
    holding = [layer.frozen_bytes for layer in ours.layers if layer.frozen_bytes]
    assert holding == [VOCABULARY * WIDTH * 2] * 2
    assert ours.layers[-1].frozen_parameters == 0


def test_a_slice_holds_its_part_of_the_frozen_weights(graph):
    assert total(graph("frozen_body", 4), "frozen_bytes") == 2 * BODY // 4


def test_twice_the_microbatch_keeps_twice_and_holds_the_same(written):
    model = ImportedModel(PythonFunction(written("lora"), "model"))
    one, two = (model.graph(microbatch, 1, RECIPE) for microbatch in (2, 4))
    assert 2 * total(one, "activation_bytes") == total(two, "activation_bytes")
    assert total(one, "frozen_bytes") == total(two, "frozen_bytes") > 0


@pytest.mark.parametrize("cost_model", ["consistent", "phaze-2024"])
@pytest.mark.parametrize("name", ["frozen_body", "lora", "branches"])
def test_a_frozen_byte_takes_one_byte_however_many_microbatches_are_stashed(name, cost_model, written):
    options = CodesignOptions(
        (f"{written(name)}:model",), accelerators=8, global_batch=16, microbatch="2", cost_model=cost_model
    )
    (job,) = options.problem().jobs
    ours = job.workload.graph(M, 1, job.recipe)
    choice = Choice(M, 1, job.hbm_bytes[0], False)
    problem = JobPlacements(job, {choice.key: ours}).problem(choice, None)
    everything = tuple(range(len(ours.layers)))
    for from_end in (1, 3):
        needed = group_memory_bytes(problem, problem.tensor_parallel[1], Stage(everything, 1), everything, from_end)
        kept = total(ours, "activation_bytes")
        trained = job.cost_model.state_factor * total(ours, "weight_bytes")
        assert needed == pytest.approx(trained + total(ours, "frozen_bytes") + from_end * kept, rel=1e-12)

    nothing = {layer.kind: dict.fromkeys(("forward", "backward", "update"), 0.0) for layer in ours.layers}
    plan = {"microbatch": M, "tensor": 1, "hbm_gb": choice.hbm_bytes / 2**30, "recompute": False}
    assert _placement_problem(job, ours, plan, nothing) == problem


@pytest.mark.parametrize("name", ["frozen_body", "branches"])
def test_a_plan_checks_and_does_not_run_faster_than_the_machine(name, written, dse, tmp_path):
    on_tpu = ("--fixed", "tpuv4", "--accelerators", "4", "--global-batch", "8", "--microbatch", "2", "--workers", "0")
    out = tmp_path / "run"
    answer = dse("codesign", f"{written(name)}:model", *on_tpu, "--out", out, "--json")
    assert answer.code == 0, answer.err
    (metrics,) = json.loads(answer.out)["metrics"]["models"].values()
    assert 0 < metrics["model_flops_utilisation"] <= 1
    assert dse("check", out / "result.json").out == "ok\n"


LARGE = """
import torch
from torch import nn

def model(microbatch):
    width = 4096
    body = nn.Sequential(*[nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU()) for _ in range(32)])
    return nn.Sequential(body.requires_grad_(False), nn.Linear(width, 16)), torch.randn(microbatch, width)
"""
"""A frozen body of 1 GiB, and compute that is worth most of a machine's peak."""


def test_a_large_frozen_body_is_spread_over_pipelines_and_at_most_as_fast_as_the_machine(dse, tmp_path):
    source = tmp_path / "large.py"
    source.write_text(LARGE)
    on_tpu = ("--fixed", "tpuv4", "--accelerators", "4", "--global-batch", "65536", "--microbatch", "4096")
    limits = ("--tensor-parallel", "1", "--hbm-gb", "0.8", "--workers", "0")
    answer = dse("codesign", f"{source}:model", *on_tpu, *limits, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    (plan,) = document["solution"]["models"].values()
    (metrics,) = document["metrics"]["models"].values()
    assert len(plan["stages"]) > 1, "1 GiB of weights do not fit 0.8"
    assert 1 / len(plan["stages"]) <= metrics["peak_memory_gb"] <= 0.8
    assert 0.2 < metrics["model_flops_utilisation"] <= 1


def test_the_command_line_tells_trained_from_frozen(written, dse):
    source = f"{written('frozen_body')}:model"
    trained = WIDTH * CLASSES + CLASSES
    assert f"{trained:,} trained parameters, {BODY:,} frozen" in dse("models", source).out
    document = json.loads(dse("models", source, "--json").out)
    assert (document["parameters"], document["frozen_parameters"]) == (trained, BODY)
    assert sum(layer["count"] * layer["frozen_parameters"] for layer in document["layers"]) == BODY
