"""The optional libraries that importers use: imported where they are needed, with what to install if one is missing."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from dse.version import DISTRIBUTION
from hardware.inputs import InputError, fail

Library = Literal["torch", "transformers", "onnx", "jax"]

_NAMES: dict[Library, str] = {
    "torch": "PyTorch",
    "transformers": "transformers",
    "onnx": "the library onnx",
    "jax": "JAX",
}

_EXTRAS: dict[Library, str] = {"torch": "learn", "transformers": "learn,models", "onnx": "onnx", "jax": "jax"}
"""The extras that bring a library and what it needs."""


def library(name: Library, source: str | Path) -> Any:
    """The module ``name``, imported to read ``source``.

    Raises:
        InputError: it is not installed (the extra that brings it is named), or does not import.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise missing(name, source, error) from error


def libraries(source: str | Path, *names: Library) -> tuple[Any, ...]:
    """The modules ``names``, in that order, all of which reading ``source`` needs.

    Raises:
        InputError: some are not installed (all of these, and all extras that bring them, are named), or one does not
            import.
    """
    absent = [name for name in names if find_spec(name) is None]
    if absent:
        extras = dict.fromkeys(extra for name in absent for extra in _EXTRAS[name].split(","))
        needed = " and ".join(_NAMES[name] for name in absent)
        raise fail(source, "", "", f"requires {needed}: {install(','.join(extras))}")
    return tuple(library(name, source) for name in names)


def missing(name: Library, source: str | Path, error: ImportError) -> InputError:
    """The error that ``source`` needs library ``name``, whose import ended in ``error``."""
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        return fail(source, "", "", f"requires {_NAMES[name]}: {install(_EXTRAS[name])}")
    return fail(source, "", "", f"requires {_NAMES[name]}, which cannot be imported: {error}")


def install(extras: str) -> str:
    """The command that installs this program with ``extras`` (names separated by commas)."""
    return f"pip install '{DISTRIBUTION}[{extras}]'"
