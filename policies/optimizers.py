"""PyTorch's optimizers without its compiler, which no network here uses: to load that takes 1.2 CPU seconds.

PyTorch's own load it (``torch._dynamo``) in every process that trains, to tell it what it must not compile: at the
first call of some methods, and in every step. The numbers are the same.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

_KNOWN = "__dynamo_disable"
"""The attribute in which PyTorch keeps what it calls in place of a method, once it has asked its compiler for that."""

for _name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
    _method = getattr(getattr(Optimizer, _name), "__wrapped__", None)
    if _method is not None and not hasattr(_method, _KNOWN):
        setattr(_method, _KNOWN, _method)

_adam: Callable[..., Any] = inspect.unwrap(torch.optim.Adam.step)
_adamw: Callable[..., Any] = inspect.unwrap(torch.optim.AdamW.step)


class Adam(torch.optim.Adam):
    """As PyTorch's."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """As PyTorch's."""
        return _adam(self, closure)


class AdamW(torch.optim.AdamW):
    """As PyTorch's."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """As PyTorch's."""
        return _adamw(self, closure)
