"""Composites written out in elementwise steps become one step, whatever they are called."""

import pytest
import torch

from dse.importer.canonical import canonical
from dse.importer.torch.module import trace_module
from hardware.inputs import InputError

GAIN = "g = self.gain\n"
WRITTEN = {
    "rms_norm": "v = x.float().pow(2).mean(-1, keepdim=True)\ny = self.gain * (x * torch.rsqrt(v + 1e-6)).to(x.dtype)",
    "rms_norm ": "y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.gain",
    "layer_norm": "m = x.mean(-1, keepdim=True)\nv = ((x - m) ** 2).mean(-1, keepdim=True)\n"
    "y = self.gain * ((x - m) / torch.sqrt(v + 1e-6)) + self.offset",
    "layer_norm ": "y = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + 1e-6)"
    " * self.gain + self.offset",
    "gelu": "y = 0.5 * x * (1 + torch.tanh(0.797884 * (x + 0.044715 * torch.pow(x, 3))))",
    "gelu ": "y = x * 0.5 * (1.0 + torch.erf(x / 1.4142135))",
    "gelu  ": "y = 0.5 * x * (1 + torch.tanh(x * 0.797884 * (1 + 0.044715 * x * x)))",
    "silu": "y = x * torch.sigmoid(x)",
    "softmax": "e = torch.exp(x - x.max(-1, keepdim=True).values)\ny = e / e.sum(-1, keepdim=True)",
    "softmax ": "y = torch.softmax(x.float(), -1).to(x.dtype)",
    "rotary": "a, b = x.chunk(2, -1)\ny = x * self.cos + torch.cat((-b, a), -1) * self.sin",
    "rotary ": "r = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)\ny = x * self.cos + r * self.sin",
    "rotary  ": "a, b = x.chunk(2, -1)\nc, s = self.cos[..., :8], self.sin[..., :8]\n"
    "y = torch.cat((a * c - b * s, b * c + a * s), -1)",
}
NOT = {
    "another argument": "y = x * torch.sigmoid(x + self.layer(x))",
    "no square": "y = x * torch.rsqrt(x.abs().mean(-1, keepdim=True) + 1e-6)",
    "another source": "y = x * torch.rsqrt(self.layer(x).pow(2).mean(-1, keepdim=True) + 1e-6)",
    "no negation": "a, b = x.chunk(2, -1)\ny = x * self.cos + torch.cat((b, a), -1) * self.sin",
    "another sum": "e = torch.exp(x)\ny = e / self.layer(e).sum(-1, keepdim=True)",
}


def steps_of(body):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 16)
            self.gain, self.offset = (torch.nn.Parameter(torch.ones(16)) for _ in range(2))
            self.register_buffer("cos", torch.ones(6, 16))
            self.register_buffer("sin", torch.ones(6, 16))

        def forward(self, x):
            names = {"self": self, "x": self.layer(x), "torch": torch}
            exec(body, names)
            return names["y"]

    with torch.device("meta"):
        trace = trace_module(Net(), torch.randn(2, 6, 16), "net", 2)
    short = canonical(trace)
    assert canonical(short) == short, "canonical traces stay as they are"
    return [step.attributes.get("function", step.kind) for step in short.steps]


@pytest.mark.parametrize("body", sorted(WRITTEN))
def test_a_composite_is_one_step(body):
    assert steps_of(WRITTEN[body]) == ["matmul", body.strip()]


@pytest.mark.parametrize("body", sorted(NOT))
def test_steps_that_only_resemble_a_composite_are_left(body):
    assert len(steps_of(NOT[body])) > 3


def test_an_intermediate_that_another_step_reads_stays():
    body = "v = x.pow(2).mean(-1, keepdim=True)\ny = x * torch.rsqrt(v + 1e-6) + v"
    assert set(steps_of(body)) == {"matmul", "power", "reduction", "mean", "rms_norm", "add"} - {"reduction"}


def test_writing_in_place_is_as_writing_anew():
    plain = "y = torch.relu(x) + 1\ny = torch.cat((y[..., :8] * 2, y[..., 8:]), -1)"
    assert steps_of("x.relu_()\nx += 1\ny = x") == ["matmul", "relu", "add_constant"]
    assert steps_of("z = x.clone()\nz.relu_()\ny = x + z") == ["matmul", "relu", "add"]
    through_a_view = steps_of("z = x.clone()\nz[..., :8].mul_(2)\ny = z + x")
    assert through_a_view == ["matmul", "slice", "scale", "copy", "add"]
    assert steps_of(plain)


def test_branches_on_small_constants_are_taken():
    body = "n = torch.arange(4)\ny = torch.relu(x) if (n[-1] == 3).item() and n.sum() == 6 else torch.tanh(x)"
    assert steps_of(body) == ["matmul", "relu"]


@pytest.mark.parametrize("elements", [2**18 + 8, 2**23 - 8])
def test_branches_on_large_constants_are_taken(elements):
    """Their values are computed where a branch needs them, through every operator in between."""
    body = (
        f"n = torch.arange({elements})\nm = torch.diff(n, prepend=n[:1] - 1)\nm += 1\n"
        "y = torch.relu(x) if (m == 2).all() and (n[-1] + 1 == n.numel()).item() else torch.tanh(x)"
    )
    assert steps_of(body) == ["matmul", "relu"]


def test_a_branch_on_a_constant_that_is_too_large_is_refused():
    body = f"n = torch.arange({2**23 + 8})\ny = torch.relu(x) if n[-1] > 1 else torch.tanh(x)"
    with pytest.raises(InputError, match=r"Tensor.item\(\) or a branch on a tensor: needs tensor values"):
        steps_of(body)
