"""Walking the arguments of a dispatched operator."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def by_name(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the operator's schema, defaults filled in."""
    named: dict[str, Any] = {}
    # PyTorch offers an operator's schema, which every custom operator registers, under this name only.
    for position, argument in enumerate(function._schema.arguments):
        if position < len(args):
            named[argument.name] = args[position]
        elif argument.name in kwargs:
            named[argument.name] = kwargs[argument.name]
        else:
            named[argument.name] = argument.default_value if argument.has_default_value() else None
    return named


def tensors_in(torch: Any, tree: Any) -> Iterator["torch.Tensor"]:
    """The tensors in nested tuples, lists and dictionaries, in order."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensors_in(torch, item)
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from tensors_in(torch, item)


def replaced(torch: Any, tree: Any, tensors: Iterator[Any]) -> Any:
    """``tree`` with its tensors replaced, in order, by ``tensors``, and every device by the CPU."""
    if isinstance(tree, torch.Tensor):
        return next(tensors)
    if isinstance(tree, torch.device):
        return torch.device("cpu")
    if type(tree) in (list, tuple):
        return type(tree)(replaced(torch, item, tensors) for item in tree)
    if isinstance(tree, dict):
        return {key: replaced(torch, item, tensors) for key, item in tree.items()}
    return tree
