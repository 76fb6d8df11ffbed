"""Layers that know their input, so that a network is one function from inputs to outputs, and its PyTorch module."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dse.graph.trace import Trace
from dse.importer.libraries import library

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"
Size = int | tuple[int, ...]
Define = Callable[..., Any]
"""A network as a function: :class:`Layers` and inputs to its outputs, tensors or tuples of them."""


@dataclass(frozen=True)
class Input:
    """One input: its shape for one sample, and its dtype as PyTorch calls it."""

    shape: tuple[int, ...]
    dtype: str = "float32"


def image(side: int = 224, channels: int = 3) -> Input:
    """A square picture."""
    return Input((1, channels, side, side))


def tokens(count: int) -> Input:
    """A row of token ids."""
    return Input((1, count), "int64")


def features(*sizes: int) -> Input:
    """Real numbers."""
    return Input((1, *sizes))


@dataclass(frozen=True)
class Definition:
    """A network of the catalogue: its name, family, inputs, and the function that it is."""

    name: str
    family: str
    inputs: tuple[Input, ...]
    define: Define

    def trace(self) -> Trace:
        """Its inference forward pass, not canonical yet.

        Raises:
            InputError: PyTorch is not installed.
        """
        torch = library("torch", self.name)
        from dse.importer.torch.module import trace_module

        with torch.device("meta"), torch.inference_mode():
            inputs = tuple(torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in self.inputs)
            module = module_of(self.define, *inputs)
        return trace_module(module, inputs, self.name, None, mode="inference")


def module_of(define: Define, *inputs: Tensor) -> "torch.nn.Module":
    """``define`` as a module for inference; its weights are made for ``inputs``, or else when it first runs."""
    from torch import nn

    class Defined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = Layers(self)

        def forward(self, *inputs: Tensor) -> Any:
            self.layers.restart()
            return define(self.layers, *inputs)

    module = Defined().eval()
    if inputs:
        module.layers.makes_weights_only = True
        module(*inputs)
        module.layers.makes_weights_only = False
    return module


class Layers:
    """The layers of one module. A layer's weights are stored under its kind and its number among those of its kind.

    Attributes:
        makes_weights_only: only the shapes of results matter: normalisations, which change none, do nothing.
    """

    def __init__(self, module: "torch.nn.Module") -> None:
        import torch

        self.torch = torch
        self.functional = torch.nn.functional
        self.makes_weights_only = False
        self._module = module
        self._counts: Counter[str] = Counter()

    def restart(self) -> None:
        """The next layer is the first one again."""
        self._counts.clear()

    def weights(self, kind: str, *shapes: tuple[int, ...]) -> "list[torch.Tensor]":
        """The weights of the next layer of a kind (``weight``, ``bias``, ``third`` …)."""
        torch = self.torch
        self._counts[kind] += 1
        name = f"{kind}{self._counts[kind]}"
        if not hasattr(self._module, name):
            layer = torch.nn.Module()
            for label, shape in zip(("weight", "bias", "third", "fourth"), shapes, strict=False):
                with torch.inference_mode(mode=False):
                    layer.register_parameter(label, torch.nn.Parameter(torch.empty(shape, device="meta")))
            setattr(self._module, name, layer)
        return list(getattr(self._module, name).parameters())

    # Layers with weights ----------------------------------------------------------------------------------------------

    def conv(
        self,
        x: Tensor,
        channels: int,
        kernel: Size = 3,
        stride: Size = 1,
        padding: Size | None = None,
        groups: int = 1,
        dilation: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """A convolution over all axes behind the channels; padded to keep the size at stride 1 when None."""
        axes = x.dim() - 2
        size = (kernel,) * axes if isinstance(kernel, int) else kernel
        pad = tuple(dilation * (item - 1) // 2 for item in size) if padding is None else padding
        shapes = [(channels, x.shape[1] // groups, *size), *([(channels,)] if bias else [])]
        weight, *rest = self.weights("conv", *shapes)
        function: Any = (self.functional.conv1d, self.functional.conv2d, self.functional.conv3d)[axes - 1]
        return self.apply(function, x, weight, rest[0] if rest else None, stride, pad, dilation, groups)

    def deconv(self, x: Tensor, channels: int, kernel: int = 4, stride: int = 2, padding: int = 1) -> Tensor:
        """A transposed convolution, without bias."""
        axes = x.dim() - 2
        (weight,) = self.weights("deconv", (x.shape[1], channels, *(kernel,) * axes))
        function: Any = (self.functional.conv_transpose1d, self.functional.conv_transpose2d)[axes - 1]
        return self.apply(function, x, weight, None, stride, padding)

    def norm(self, x: Tensor) -> Tensor:
        """Batch normalisation."""
        size = (x.shape[1],)
        gain, offset, mean, variance = self.weights("norm", size, size, size, size)
        return x if self.makes_weights_only else self.functional.batch_norm(x, mean, variance, gain, offset)

    def layer_norm(self, x: Tensor) -> Tensor:
        """Layer normalisation over the last axis."""
        gain, offset = self.weights("layer_norm", x.shape[-1:], x.shape[-1:])
        return x if self.makes_weights_only else self.functional.layer_norm(x, x.shape[-1:], gain, offset)

    def group_norm(self, x: Tensor, groups: int) -> Tensor:
        """Group normalisation."""
        gain, offset = self.weights("group_norm", (x.shape[1],), (x.shape[1],))
        return x if self.makes_weights_only else self.functional.group_norm(x, groups, gain, offset)

    def linear(self, x: Tensor, width: int, bias: bool = True) -> Tensor:
        """A linear layer over the last axis."""
        weight, *rest = self.weights("linear", (width, x.shape[-1]), *([(width,)] if bias else []))
        return self.functional.linear(x, weight, rest[0] if rest else None)

    def embed(self, indices: Tensor, rows: int, width: int) -> Tensor:
        """Rows of a table."""
        (table,) = self.weights("embedding", (rows, width))
        return self.functional.embedding(indices, table)

    def scale(self, x: Tensor, *shape: int) -> Tensor:
        """A learned factor, broadcast."""
        (factor,) = self.weights("scale", shape)
        return x * factor

    def apply(self, function: Callable[..., Any], x: Tensor, *options: Any, **named: Any) -> Tensor:
        """A function of PyTorch's (its annotations do not say what it returns)."""
        result: Tensor = function(x, *options, **named)
        return result

    # What is common ---------------------------------------------------------------------------------------------------

    def conv_norm(self, x: Tensor, channels: int, kernel: Size = 3, stride: Size = 1, **options: Any) -> Tensor:
        """A convolution and its batch normalisation."""
        return self.norm(self.conv(x, channels, kernel, stride, **options))

    def block(self, x: Tensor, channels: int, kernel: Size = 3, stride: Size = 1, **options: Any) -> Tensor:
        """A convolution, its batch normalisation, and ReLU."""
        return self.conv_norm(x, channels, kernel, stride, **options).relu()

    def max_pool(self, x: Tensor, kernel: int = 3, stride: int = 2, padding: int = 0) -> Tensor:
        """Maxima of windows."""
        function = (self.functional.max_pool1d, self.functional.max_pool2d, self.functional.max_pool3d)[x.dim() - 3]
        return function(x, kernel, stride, padding)

    def mean_pool(self, x: Tensor, kernel: int = 2, stride: int = 2, padding: int = 0) -> Tensor:
        """Means of windows."""
        functions: Sequence[Any] = (self.functional.avg_pool1d, self.functional.avg_pool2d, self.functional.avg_pool3d)
        return self.apply(functions[x.dim() - 3], x, kernel, stride, padding)

    def global_pool(self, x: Tensor) -> Tensor:
        """The mean of each channel, [B, C]."""
        functions: Sequence[Any] = (
            self.functional.adaptive_avg_pool1d,
            self.functional.adaptive_avg_pool2d,
            self.functional.adaptive_avg_pool3d,
        )
        return self.apply(functions[x.dim() - 3], x, 1).flatten(1)

    def classify(self, x: Tensor, classes: int = 1000) -> Tensor:
        """Global pooling and a linear layer."""
        return self.linear(self.global_pool(x), classes)

    def resize(self, x: Tensor, factor: int = 2, mode: str = "nearest") -> Tensor:
        """A picture ``factor`` times as large."""
        return self.functional.interpolate(x, scale_factor=float(factor), mode=mode)

    def concatenate(self, *parts: Tensor, axis: int = 1) -> Tensor:
        """Tensors side by side, along the channels."""
        return self.torch.cat(parts, axis)

    def mlp(self, x: Tensor, widths: Sequence[int]) -> Tensor:
        """Linear layers, each with ReLU."""
        for width in widths:
            x = self.linear(x, width).relu()
        return x

    def squeeze_excite(self, x: Tensor, inner: int, gate: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Channels scaled by what a small network makes of their means (Hu et al. 2018)."""
        means = self.functional.adaptive_avg_pool2d(x, 1)
        middle = self.conv(means, inner, 1, bias=True).relu()
        scale = self.conv(middle, x.shape[1], 1, bias=True)
        return x * (self.torch.sigmoid(scale) if gate is None else gate(scale))
