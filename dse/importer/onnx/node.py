"""The nodes of an ONNX graph and the types of their values, as the onnx library states them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardware.inputs import InputError, fail

if TYPE_CHECKING:
    from onnx import TypeProto


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: its kind as ONNX calls it, names of what it reads ("" where left out) and writes, attributes.

    ``captured`` are the values that only the graphs inside it read.
    """

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    captured: tuple[str, ...] = ()

    def input(self, position: int) -> str:
        """The name of an input, or "" where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else ""


@contextmanager
def refused_by_onnx(path: Path, key: str, value: str) -> Iterator[None]:
    """What the onnx library raises about a part of the file, as an InputError in its words.

    It states its own rules by exceptions of its own, and by those of Python where its arguments are out of range.
    """
    import onnx.checker
    import onnx.shape_inference

    stated = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
    try:
        yield
    except InputError:
        raise
    except (*stated, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        words = " ".join(str(error).split())[:160]
        raise fail(path, key, value, f"is not valid ONNX: {words or type(error).__name__}") from error


def shape_of(node: Node, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
    """What ``Shape`` or ``Size`` gives."""
    if node.kind == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    return np.array(shape[node.attributes.get("start", 0) : node.attributes.get("end", len(shape))], dtype=np.int64)


def complete(stated: "TypeProto | None") -> bool:
    """Whether it is a tensor with a shape of numbers."""
    if stated is None or not stated.HasField("tensor_type") or not stated.tensor_type.HasField("shape"):
        return False
    return all(dim.HasField("dim_value") for dim in stated.tensor_type.shape.dim)


def numbered(stated: "TypeProto", symbols: Mapping[str, int]) -> "TypeProto":
    """A stated type with the numbers of its symbols."""
    for dim in stated.tensor_type.shape.dim:
        if dim.dim_param in symbols:
            dim.dim_value = symbols[dim.dim_param]
    return stated
