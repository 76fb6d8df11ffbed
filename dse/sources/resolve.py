"""What a user names as input, resolved: one place where text or an object becomes a source of a known kind.

A problem hands over the :class:`~dse.sources.kinds.ProblemFormat` of what it alone reads, and asks the source for what
it needs: :func:`dse.sources.workloads.workload` for a training job, :func:`dse.sources.traces.inference_trace_of` for a
forward pass.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.graph.trace import Trace
from dse.models.hyperparameters import SCHEMA, Hyperparameters
from dse.sources import catalogue
from dse.sources.kinds import (
    CatalogueNetwork,
    ForwardTrace,
    HyperparameterModel,
    OnnxFile,
    ProblemFormat,
    ProblemInput,
    PythonFunction,
    Source,
    TorchModule,
    TransformersConfig,
)
from dse.sources.user_graphs import code_file
from hardware.documents import read_document
from hardware.input_files import bytes_of, is_file, located, note, noting
from hardware.inputs import InputError, fail, nearest, validate

if TYPE_CHECKING:
    import torch

_DOCUMENTS = (".json", ".yaml", ".yml")
STEP_SUFFIXES = (".hlo", ".txt", ".mlir", ".stablehlo")
"""Of files that hold training steps (:mod:`dse.sources.steps`)."""

_FUNCTION_RULE = "must be FILE.py:FUNCTION, where FUNCTION returns a module and example inputs"


def resolve(source: object, formats: Sequence[ProblemFormat] = ()) -> Source:
    """What ``source`` is.

    Args:
        source: text: a name of :func:`known_names`; ``FILE.py:FUNCTION``, a function that returns a PyTorch module and
            example inputs; an ``.onnx`` file; a document that holds hyper-parameters or is a ``config.json`` of
            transformers; or what ``formats`` has. A path object is such a file. As an object: a pair of a PyTorch
            module and example inputs, hyper-parameters, a trace, or what has the type of one of ``formats``.
        formats: further formats, which only the calling problem reads.

    Raises:
        InputError: a name that nothing has (the nearest one is offered), a file that cannot be read, is of no known
            kind or is a folder, or an object of another type.
    """
    if isinstance(source, str):
        return _of_text(source, formats)
    if isinstance(source, os.PathLike):
        path = os.fspath(source)
        return _of_file(path if isinstance(path, str) else os.fsdecode(path), formats)
    return _of_object(source, formats)


def list_models() -> list[str]:
    """Names of the built-in models, sorted."""
    files = resources.files("dse.models").joinpath("zoo").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def known_names(formats: Sequence[ProblemFormat] = ()) -> list[str]:
    """All names: those of ``formats``, the built-in models, and the catalogue."""
    return [*(name for each in formats for name in each.names), *list_models(), *catalogue.names()]


def accepted(formats: Sequence[ProblemFormat] = ()) -> str:
    """What a source can be, for error texts."""
    *others, last = [
        *(each.description for each in formats),
        "a built-in model" if formats else f"a built-in model ({', '.join(list_models())})",
        "a catalogue network (docs/method/partition.md)",
        "FILE.py:FUNCTION",
        "an .onnx file",
        "a transformers config.json",
        "a .yaml file of hyper-parameters",
    ]
    return f"{', '.join(others)}, or {last}"


# Text -----------------------------------------------------------------------------------------------------------------


def _of_text(text: str, formats: Sequence[ProblemFormat]) -> Source:
    for each in formats:
        if text in each.names:
            return ProblemInput(each, text)
    if text in list_models():
        return _built_in(text)
    if text in catalogue.names():
        return CatalogueNetwork(text)
    if (function := python_function(text)) is not None:
        return function
    if Path(text).suffix in _suffixes(formats) or "/" in text or (text and os.path.exists(text)):
        return _of_file(text, formats)
    raise fail("", "model", text, f"must be {accepted(formats)}", nearest(text, known_names(formats)))


def python_function(text: str) -> PythonFunction | None:
    """What ``FILE.py:FUNCTION`` names; None for a text of another form.

    Raises:
        InputError: no such file, or no name of a function.
    """
    path, _, function = text.rpartition(":")
    if not path.endswith(".py"):
        return None
    if not function.isidentifier():
        raise fail(text, "", function, "must be FILE.py:FUNCTION, with the name of a function in the file")
    return PythonFunction(code_file(path) or _existing(path), function)


@cache
def _built_in(name: str) -> HyperparameterModel:
    # Part of the program, not an input: read once, it would be noted in the first answer alone.
    with noting(), resources.as_file(resources.files("dse.models").joinpath("zoo", f"{name}.yaml")) as path:
        return HyperparameterModel(_hyperparameters(read_document(path), str(path)), name)


def _suffixes(formats: Sequence[ProblemFormat]) -> set[str]:
    """The suffixes that say what a file is."""
    return {*_DOCUMENTS, *STEP_SUFFIXES, ".onnx", ".py", *(suffix for each in formats for suffix in each.suffixes)}


def _of_file(text: str, formats: Sequence[ProblemFormat]) -> Source:
    path = Path(text)
    if os.path.isdir(path):
        config = path / "config.json"
        rule = (
            f"must be a file, not a folder, such as {config}"
            if os.path.isfile(config)
            else "must be a file, not a folder"
        )
        raise fail(text, "", "", rule)
    for each in formats:
        if path.suffix in each.suffixes:
            return ProblemInput(each, text)
    if path.suffix in _DOCUMENTS:
        return _of_document(text, read_document(text), formats)
    if path.suffix == ".onnx":
        return OnnxFile(_existing(text))
    if path.suffix == ".py":
        raise fail(text, "", "", _FUNCTION_RULE)
    if path.suffix in STEP_SUFFIXES:
        rule = f"must be {accepted(formats)}, not a training step (use dse parallel or dse partition)"
        raise fail(text, "", "", rule)
    _existing(text)
    raise fail(text, "", path.suffix, f"must be {accepted(formats)}")


def _existing(text: str) -> Path:
    """The absolute path of a file, which is noted by the name that it was given.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    if not is_file(text):  # which takes any text, such as one with a null character
        raise fail(text, "", "", "cannot be read: no such file")
    try:
        note(text, bytes_of(text))
    except OSError as error:
        raise fail(text, "", "", f"cannot be read: {str(error.strerror).lower()}") from error
    return located(text)


def _of_document(text: str, document: Any, formats: Sequence[ProblemFormat]) -> Source:
    """What a JSON or YAML document is, by its ``schema``, or as transformers' configurations have ``model_type``."""
    if not isinstance(document, dict):
        raise fail(text, "", document, "the document must be an object of keys and values")
    if "model_type" in document and "schema" not in document:
        return TransformersConfig(_existing(text))
    for each in formats:
        if "schema" not in document and not document.keys().isdisjoint(each.keys):
            return ProblemInput(each, text, document)
    schemas = {each.schema: each for each in formats if each.schema}
    schema = document.get("schema")
    if isinstance(schema, str) and schema in schemas:
        return ProblemInput(schemas[schema], text, document)
    if schema == SCHEMA:
        return HyperparameterModel(_hyperparameters(document, text), text)
    known = [SCHEMA, *schemas]
    if "schema" not in document:
        rule = f"the key is missing; must be {' or '.join(known)} (a transformers config.json has model_type)"
        raise fail(text, "schema", "", rule)
    raise fail(text, "schema", schema, f"must be {' or '.join(known)}", nearest(str(schema), known))


def _hyperparameters(document: dict[str, Any], path: str) -> Hyperparameters:
    return validate(Hyperparameters, {key: value for key, value in document.items() if key != "schema"}, path)


# Objects --------------------------------------------------------------------------------------------------------------


def _of_object(source: object, formats: Sequence[ProblemFormat]) -> Source:
    for each in formats:
        if each.object_type is not None and isinstance(source, each.object_type):
            return ProblemInput(each, str(getattr(source, "name", "")) or each.object_type.__name__, source)
    if isinstance(source, Hyperparameters):
        return HyperparameterModel(source, source.name)
    if isinstance(source, Trace):
        return ForwardTrace(source)
    if isinstance(source, tuple) and len(source) == 2 and _is_module(source[0]):
        module, example_inputs = source
        return TorchModule(_without_weights(module), example_inputs, type(module).__name__)
    if _is_module(source):
        raise _wrong_object(source, "must be (module, example_inputs), not a module alone")
    types = ", ".join(each.object_type.__name__ for each in formats if each.object_type is not None)
    rule = f"must be text, (torch module, example inputs), Hyperparameters, Trace{types and f', {types}'}"
    raise _wrong_object(source, rule)


def _wrong_object(source: object, rule: str) -> InputError:
    return fail("", "model", type(source).__name__, rule)


def _is_module(item: object) -> bool:
    """Whether ``item`` is a PyTorch module, without importing PyTorch: who has made one has done so."""
    return any(cls.__module__ == "torch.nn.modules.module" and cls.__name__ == "Module" for cls in type(item).__mro__)


def _without_weights(module: "torch.nn.Module") -> "torch.nn.Module":
    """A copy of ``module`` on the meta device; weights that are shared stay so, and none is copied."""
    import copy

    import torch

    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer.detach().to("meta")
    return copy.deepcopy(module, memo)
