"""ATen operators that are run as other ones, so that what they are made of is seen."""

from collections.abc import Callable, Mapping
from typing import Any


def _attention(torch: Any, call: Mapping[str, Any]) -> Any:
    """Scaled dot-product attention as its definition: softmax(q·kᵀ·scale + mask)·v."""
    query, key, value, mask = call["query"], call["key"], call["value"], call["attn_mask"]
    if call["enable_gqa"]:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (_repeated(item, repeats) for item in (key, value))
    scale = call["scale"] or query.shape[-1] ** -0.5
    scores = torch.matmul(query, key.transpose(-2, -1)) * scale
    if call["is_causal"]:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device="meta")
    if mask is not None:
        scores = scores + (mask if mask.is_floating_point() else torch.zeros(mask.shape, device="meta"))
    return torch.matmul(torch.dropout(torch.softmax(scores, -1), call["dropout_p"], True), value)


def _repeated(tensor: Any, repeats: int) -> Any:
    """Every head ``repeats`` times, as a broadcast."""
    *batch, heads, rows, width = tensor.shape
    wide = tensor.unsqueeze(-3).expand(*batch, heads, repeats, rows, width)
    return wide.reshape(*batch, heads * repeats, rows, width)


def _stack(torch: Any, call: Mapping[str, Any]) -> Any:
    axis = call["dim"] or 0
    return torch.cat([item.unsqueeze(axis) for item in call["tensors"]], axis)


def _variance(torch: Any, call: Mapping[str, Any]) -> Any:
    """Variance as its definition, so that a normalisation written out is recognised."""
    source = call["self"]
    axes = list(range(source.dim())) if call.get("dim") is None else call["dim"]
    centred = torch.sub(source, source.mean(axes, keepdim=True))
    return (centred * centred).mean(axes, keepdim=bool(call.get("keepdim")))


def _mean_and_variance(torch: Any, call: Mapping[str, Any]) -> Any:
    axes = list(range(call["self"].dim())) if call.get("dim") is None else call["dim"]
    return _variance(torch, call), call["self"].mean(axes, keepdim=bool(call.get("keepdim")))


def _standard_deviation(torch: Any, call: Mapping[str, Any]) -> Any:
    return torch.sqrt(_variance(torch, call))


def _norm(torch: Any, call: Mapping[str, Any]) -> Any:
    """The Euclidean norm; any other is left as it is."""
    if call["ord"] != 2:
        return NotImplemented
    axes = list(range(call["self"].dim())) if call["dim"] is None else call["dim"]
    return torch.sqrt(torch.sum(call["self"] * call["self"], axes, keepdim=bool(call["keepdim"])))


def _vector_product(torch: Any, call: Mapping[str, Any]) -> Any:
    """Products with a vector, as products of matrices."""
    left = call["self"]
    right = call["other"] if "other" in call else call["tensor"] if "tensor" in call else call["vec"]
    if left.dim() > 1 and right.dim() > 1:
        return NotImplemented
    product = torch.matmul(
        left.unsqueeze(0) if left.dim() == 1 else left, right.unsqueeze(-1) if right.dim() == 1 else right
    )
    product = product.squeeze(-1) if right.dim() == 1 else product
    return (
        product.squeeze(-1 if right.dim() > 1 else 0)
        if left.dim() == 1 and right.dim() > 1
        else (product.squeeze() if left.dim() == 1 else product)
    )


def _vector_linear(torch: Any, call: Mapping[str, Any]) -> Any:
    source = call["input"]
    if source.dim() > 1:
        return NotImplemented
    return torch.nn.functional.linear(source.unsqueeze(0), call["weight"], call["bias"]).squeeze(0)


REWRITTEN: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "scaled_dot_product_attention": _attention,
    "stack": _stack,
    "var": _variance,
    "var_mean": _mean_and_variance,
    "std": _standard_deviation,
    "linalg_vector_norm": _norm,
    "matmul": _vector_product,
    "dot": _vector_product,
    "mv": _vector_product,
    "linear": _vector_linear,
}
"""Operators that are run as others; ``NotImplemented`` where this one is fine as it is."""
