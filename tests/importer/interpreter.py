"""Runs traces on numbers, differentiably: the whole one, or all accelerators of a tensor-parallel group in step.

The collectives have Megatron's rules for gradients (Shoeybi et al. 2019, section 3): behind an all-reduce each
accelerator has the gradient already, in front of a copy to the group the gradients are summed.
"""

from collections.abc import Mapping
from typing import Any

import torch

from dse.graph.trace import Step, Trace
from dse.sharding.rules import Split
from dse.sharding.slicing import Slicing

Tensors = Mapping[int, Any]

_UNARY = {
    "scale": lambda x: 0.5 * x,
    "add_constant": lambda x: x + 0.25,
    "negate": torch.neg,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "power": torch.square,
    "exp": torch.exp,
}
_BINARY = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div}
_REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(context, *parts):
        total = sum(parts)
        return tuple(total.clone() for _ in parts)

    @staticmethod
    def backward(context, *gradients):
        return gradients


class _CopyToGroup(torch.autograd.Function):
    @staticmethod
    def forward(context, *parts):
        return tuple(part.clone() for part in parts)

    @staticmethod
    def backward(context, *gradients):
        total = sum(gradients)
        return tuple(total.clone() for _ in gradients)


class _Shared(torch.autograd.Function):
    """What all accelerators compute together: each has the result, and its gradient, once."""

    @staticmethod
    def forward(context, count, result):
        return tuple(result.clone() for _ in range(count))

    @staticmethod
    def backward(context, *gradients):
        return None, gradients[0]


def cut(tensor, split: Split, width: int, rank: int):
    """The part of ``tensor`` that accelerator ``rank`` of ``width`` holds."""
    segments = torch.split(tensor, split.segments, dim=split.axis)
    return torch.cat([part.chunk(width, dim=split.axis)[rank] for part in segments], dim=split.axis)


def joined(parts, split: Split):
    """The whole of ``parts``: the inverse of :func:`cut`."""
    pieces = [torch.split(part, [size // len(parts) for size in split.segments], dim=split.axis) for part in parts]
    return torch.cat([piece[i] for i in range(len(split.segments)) for piece in pieces], dim=split.axis)


def run_whole(trace: Trace, leaves: Tensors) -> dict[int, Any]:
    """All values of ``trace``, given its parameters, buffers, inputs and constants."""
    values = dict(leaves)
    for step in trace.steps:
        if step.kind != "constant":
            result = step.outputs[0]
            values[result] = evaluate(step, [values[v] for v in step.inputs], trace.values[result].shape)
    return values


def run_group(slicing: Slicing, leaves: list[Tensors]) -> list[dict[int, Any]]:
    """The values of each accelerator, given its part of the leaves; shapes must be those that the trace states."""
    trace, width = slicing.trace, slicing.width
    ranks = [dict(own) for own in leaves]
    for step in trace.steps:
        if step.kind == "constant":
            continue
        (result,) = step.outputs
        inputs = [[values[v] for v in step.inputs] for values in ranks]
        if step.kind == "all_reduce":
            outputs = _AllReduce.apply(*(own[0] for own in inputs))
        elif step.kind == "copy_to_group":
            outputs = _CopyToGroup.apply(*(own[0] for own in inputs))
        elif step.attributes.get("participants") and step.kind == "cross_entropy":
            logits = joined([own[0] for own in inputs], slicing.splits[step.inputs[0]])
            outputs = _Shared.apply(width, evaluate(step, [logits, inputs[0][1]], trace.values[result].shape))
        elif step.kind == "embedding" and (split := slicing.splits.get(step.inputs[0])) and split.axis == 0:
            outputs = [_lookup_part(own[0], own[1], rank) for rank, own in enumerate(inputs)]
        else:
            outputs = [evaluate(step, own, trace.values[result].shape) for own in inputs]
        for values, output in zip(ranks, outputs, strict=True):
            assert output.shape == trace.values[result].shape, (step, output.shape)
            values[result] = output
    return ranks


def _lookup_part(rows, indices, rank: int):
    """Rows that this accelerator holds, zeros for the others'."""
    local = indices - rank * len(rows)
    held = (local >= 0) & (local < len(rows))
    return rows[local.where(held, 0)] * held[..., None]


def evaluate(step: Step, inputs: list[Any], shape: tuple[int, ...]):
    """The output of one step (``shape`` tells what its attributes do not: views)."""
    x, attributes = inputs[0], step.attributes
    match step.kind:
        case "matmul":
            return x @ inputs[1] + (inputs[2] if len(inputs) == 3 else 0.0)
        case "elementwise":
            function = str(attributes["function"])
            return _UNARY[function](x) if len(inputs) == 1 else _BINARY[function](*inputs)
        case "softmax":
            return x.softmax(attributes["axis"])
        case "layer_norm" | "rms_norm":
            return _norm(x, inputs[1:], attributes["axes"], centred=step.kind == "layer_norm")
        case "dropout" | "cast" | "copy":
            return x
        case "embedding":
            return x[inputs[1]]
        case "cross_entropy":
            rows = x.movedim(attributes["axis"], -1).log_softmax(-1)
            return -rows.gather(-1, inputs[1][..., None]).mean()
        case "reduction":
            return _REDUCTIONS[attributes["function"]](x, dim=attributes["axes"], keepdim=bool(attributes["keep"]))
        case "rotary":
            half = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1)
            return x * inputs[1] + half * inputs[2]
        case "reshape":
            return x.reshape(shape)
        case "permute":
            return x.permute(attributes["axes"])
        case "expand":
            return x.expand(shape)
        case "slice":
            axis, start, step_size = (attributes[name] for name in ("axis", "start", "step"))
            return x.index_select(axis, start + step_size * torch.arange(shape[axis]))
        case "concatenate":
            return torch.cat(inputs, dim=attributes["axis"])
        case "gather":
            axis = attributes["axis"]
            picked = x.index_select(axis, inputs[1].flatten())
            return picked.reshape(*x.shape[:axis], *inputs[1].shape, *x.shape[axis + 1 :])
    raise NotImplementedError(step.kind)


def _norm(x, scales, axes: tuple[int, ...], centred: bool):
    if centred:
        x = x - x.mean(dim=axes, keepdim=True)
    x = x / torch.sqrt(x.square().mean(dim=axes, keepdim=True) + 1e-5)
    for scale, combine in zip(scales, (torch.mul, torch.add), strict=False):
        x = combine(x, scale)
    return x
