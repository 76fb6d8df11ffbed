"""A user's Python file: run as a module, and the functions in it."""

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from dse.importer.user_code import guarded, is_installed
from hardware.documents import text_of
from hardware.inputs import fail, nearest

_OUR_PACKAGES = frozenset({"hardware", "dse", "policies", "actors"})


@dataclass
class LoadedFile:
    """A user's Python file, run; ``local_files`` are it and the user's own files that it imported so far."""

    path: Path
    module: ModuleType
    local_files: list[Path] = field(default_factory=list)


def parameters_of(path: Path, name: str) -> tuple[str, ...]:
    """The sizes that function ``name`` of the file asks for, read from its text: the file is not run.

    Raises:
        InputError: the file cannot be read, is not Python, or defines no such function at its top level.
    """
    text = text_of(path)  # outside: its InputError is a ValueError
    try:
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deeply
        line = f"line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.args[0] if error.args else "is nested too deeply"
        raise fail(path, line, "", f"is not valid Python: {reason}") from error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name in functions:
        arguments = functions[name].args
        return tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    return ()


def takes(function: Callable[..., Any]) -> dict[str, bool]:
    """The parameters of ``function``, and whether each must be given."""
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default is inspect.Parameter.empty for item in parameters if item.kind in plain}


@contextmanager
def loaded(path: Path) -> Iterator[LoadedFile]:
    """The file, run as a module; the user's modules that it imported are forgotten again at the end."""
    if not os.path.isfile(path):
        raise fail(path, "", "", "cannot be read: no such file")
    spec = importlib.util.spec_from_file_location(f"_dse_import_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise fail(path, "", "", "is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    keeps_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # compiled files are stale when a source changes twice in a second
    importlib.invalidate_caches()
    sys.path.insert(0, str(path.parent))
    file = LoadedFile(path, module, [path])
    loader = spec.loader
    folder = Path.cwd()
    try:
        guarded(str(path), lambda: loader.exec_module(module))
        yield file
    finally:
        os.chdir(folder)  # the user's code may have gone elsewhere
        with suppress(ValueError):
            sys.path.remove(str(path.parent))
        sys.dont_write_bytecode = keeps_no_bytecode
        for name in set(sys.modules) - before:
            imported = _local_file(name)
            if imported is not None:
                file.local_files.append(imported)
                del sys.modules[name]
        file.local_files.sort()


def _local_file(name: str) -> Path | None:
    """The file of module ``name``, if it is neither Python's, nor installed, nor this program's."""
    file = getattr(sys.modules[name], "__file__", None)
    if file is None or name.partition(".")[0] in _OUR_PACKAGES:
        return None
    path = Path(file).resolve()
    return path if path.is_file() and not is_installed(path) else None  # libraries name some files that are not there


def function_of(file: LoadedFile, name: str) -> Callable[..., Any]:
    """The function of this name.

    Raises:
        InputError: the file has none (the nearest one is offered).
    """
    function: Callable[..., Any] | None = getattr(file.module, name, None)
    if not callable(function):
        known = sorted(key for key, item in vars(file.module).items() if inspect.isfunction(item))
        rule = f"the file has no function with this name; it has {', '.join(known) or 'none'}"
        raise fail(file.path, "", name, rule, nearest(name, known))
    return function
