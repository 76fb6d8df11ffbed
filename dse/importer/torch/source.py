"""Calling a user's ``FILE.py:FUNCTION`` for a module and its inputs."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dse.graph.trace import Trace
from dse.importer.libraries import library
from dse.importer.torch.module import Mode, trace_module
from dse.importer.user_code import guarded
from dse.importer.user_file import function_of, loaded, parameters_of, takes
from hardware.inputs import InputError, fail


def trace_function(
    path: Path, name: str, model: str, sizes: dict[str, int], mode: Mode = "training"
) -> tuple[Trace, tuple[Path, ...]]:
    """The trace of the module that function ``name`` of the file returns, and the user's files it was made of.

    The function returns ``(module, example_inputs)``. It is given those of ``sizes`` (``microbatch``,
    ``tensor_parallel``, ``sequence``) that it has parameters for; without a parameter ``microbatch``, the leading
    dimension of its example inputs is replaced.

    Raises:
        InputError: PyTorch is missing, no such file or function, a function that fails or returns something else, and
            all that :func:`~dse.importer.torch.module.trace_module` refuses.
    """
    parameters_of(path, name)  # a file that is not Python is refused with its line
    library("torch", path)
    with loaded(path) as file:
        function = function_of(file, name)
        taken = takes(function)
        given = {key: size for key, size in sizes.items() if key in taken}
        for key in sorted(set(taken) - set(sizes)):
            if taken[key]:
                raise fail(
                    path,
                    name,
                    key,
                    "the function may have only the parameters microbatch, tensor_parallel and sequence",
                )
        module, inputs, *_ = called(function, given, path, name)
        resized = None if "microbatch" in given else sizes["microbatch"]
        trace = trace_module(module, inputs, model, resized, str(path), mode)
        if trace.microbatch != sizes["microbatch"]:
            rule = f"must be the leading dimension of the example inputs, which is {trace.microbatch}"
            raise fail(path, f"{name}(microbatch)", sizes["microbatch"], rule)
    return trace, tuple(file.local_files)


def called(function: Callable[..., Any], given: dict[str, int], path: Path, name: str) -> tuple[Any, ...]:
    """(module, example inputs), and targets where the function returns some, on the meta device where it allows.

    Raises:
        InputError: it fails, or returns something else.
    """
    answer = answer_of(function, given, path)
    if not is_module_with_inputs(answer):
        shown = type(answer).__name__
        if inspect.iscoroutine(answer):
            answer.close()  # or Python complains on stderr that nobody awaited it
        if isinstance(answer, tuple):
            shown = f"({', '.join(type(item).__name__ for item in answer)})"
        raise fail(path, name, shown, "the function must return (module, example inputs)")
    return tuple(answer)


def answer_of(function: Callable[..., Any], given: dict[str, int], path: Path) -> Any:
    """What a user's function returns, made on PyTorch's meta device where the function allows.

    Raises:
        InputError: it fails.
    """
    torch = sys.modules.get("torch")
    if torch is None:  # then it makes no modules
        return guarded(str(path), lambda: function(**given))

    def on_meta() -> Any:
        with torch.device("meta"):
            return function(**given)

    try:
        return guarded(str(path), on_meta)
    except InputError:  # whatever the function cannot do without data, it may do with it
        return guarded(str(path), lambda: function(**given))


def is_module_with_inputs(answer: object) -> bool:
    """Whether a function returned a PyTorch module with its inputs, and maybe targets."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(answer, tuple) or len(answer) not in (2, 3):
        return False
    return isinstance(answer[0], torch.nn.Module)
