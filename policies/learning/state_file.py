"""The state of a training as one file without pickles: whoever reads it runs nothing.

A state is a tree of dictionaries, lists and tuples over arrays, tensors, numbers, text and None. The file is NumPy's
``.npz``, read with ``allow_pickle=False``: the arrays by number, and the tree as JSON in which they are named.
"""

import io
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

_TREE = "tree"
_PLAIN = (bool, int, float, str, type(None))


def encoded(state: Any) -> bytes:
    """``state`` as the content of a file.

    Raises:
        TypeError: something in it is neither an array nor data (a fault of who made it).
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    tree = _described(state, arrays, "state")
    text = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_TREE: text}, **arrays)
    return content.getvalue()


def decoded(content: bytes) -> Any:
    """The inverse of :func:`encoded`; tensors are on the CPU.

    Raises:
        ValueError: it is none that :func:`encoded` gave.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _restored(json.loads(arrays[_TREE].tobytes()), arrays)
    except (OSError, EOFError, KeyError, TypeError, IndexError, zipfile.BadZipFile, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _described(item: Any, arrays: dict[str, npt.NDArray[Any]], place: str) -> Any:
    """``item`` as JSON: plain values as they are, everything else as a list that begins with its kind."""
    if isinstance(item, np.generic) or type(item).__module__ == "torch" or isinstance(item, np.ndarray):
        kind = "scalar" if isinstance(item, np.generic) else "array" if isinstance(item, np.ndarray) else "tensor"
        value = np.asarray(item.detach().cpu() if kind == "tensor" else item)
        if value.dtype == object:
            raise TypeError(f"{place}: an array of objects cannot be stored")
        name = f"a{len(arrays)}"
        arrays[name] = value
        return [kind, name]
    if isinstance(item, bytes):
        return ["bytes", item.hex()]
    if isinstance(item, dict):
        entries = [
            [_described(key, arrays, place), _described(value, arrays, f"{place}.{key}")] for key, value in item.items()
        ]
        return ["dict", entries]
    if type(item) in (list, tuple):
        kind = "list" if type(item) is list else "tuple"
        return [kind, [_described(each, arrays, f"{place}.{number}") for number, each in enumerate(item)]]
    if type(item) in _PLAIN:
        return item
    raise TypeError(f"{place}: {type(item).__name__} cannot be stored")


def _restored(tree: Any, arrays: dict[str, npt.NDArray[Any]]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, content = tree
    if kind == "dict":
        return {_restored(key, arrays): _restored(value, arrays) for key, value in content}
    if kind in ("list", "tuple"):
        items = [_restored(each, arrays) for each in content]
        return items if kind == "list" else tuple(items)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "tensor":
        import torch

        return torch.from_numpy(arrays[content])
    if kind == "scalar":
        return arrays[content][()]
    if kind == "array":
        return arrays[content]
    raise ValueError(f"{kind!r} is not a kind of data")
