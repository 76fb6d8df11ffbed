"""Finding models: the built-in ones by name, a user's own by file."""

import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dse.models.hyperparameters import SCHEMA, Hyperparameters
from dse.models.workload import BuiltModel, Workload
from hardware.inputs import choose, fail, nearest, read_document, validate

if TYPE_CHECKING:
    from dse.sources.imported import ImportedModel

_SUFFIXES = (".yaml", ".yml", ".json")


def list_models() -> list[str]:
    """Names of the built-in models, sorted."""
    files = resources.files("dse.models").joinpath("zoo").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def model(name_or_path: str | Path) -> Hyperparameters:
    """The built-in model ``name_or_path``, or a user's own file when it has a file suffix or a slash.

    Raises:
        InputError: no built-in model of this name (the nearest one is offered), an unreadable file, or any fault in it.
    """
    text = str(name_or_path)
    if ".py:" in text:
        raise fail(text, "", "", "is a Python function; hyper-parameters are a YAML file or a built-in name")
    if isinstance(name_or_path, Path) or text.endswith(_SUFFIXES) or "/" in text:
        return _read(Path(text))
    name = choose("", "model", text, list_models(), "built-in model")
    with resources.as_file(resources.files("dse.models").joinpath("zoo", f"{name}.yaml")) as path:
        return _read(path)


def workload(name_or_path: str, sequence: int | None = None) -> Workload:
    """What trains: a built-in model by name, or a user's own.

    Args:
        name_or_path: a built-in name; a file of hyper-parameters; ``FILE.py:FUNCTION``, a function that returns a
            PyTorch module and example inputs; a Hugging Face ``config.json`` (a JSON file with ``model_type``); a
            ``.onnx`` file.
        sequence: tokens of a sample, for a source that lets one choose.

    Raises:
        InputError: as :func:`model`, or a sequence length for a source that has its own. Imported models are traced,
            and refused, when their graph is asked for.
    """
    from dse.sources.imported import ImportedModel

    path, separator, function = name_or_path.rpartition(":")
    if separator and path.endswith(".py"):
        if not function.isidentifier():
            raise fail(name_or_path, "", function, "must be FILE.py:FUNCTION, with the name of a function in the file")
        return _imported(ImportedModel(os.path.realpath(path), function, sequence))
    if name_or_path.endswith(".py"):
        raise fail(name_or_path, "", "", "must be FILE.py:FUNCTION, where FUNCTION returns a module and example inputs")
    if name_or_path.endswith(".onnx") or _is_transformers_config(name_or_path):
        return _imported(ImportedModel(os.path.realpath(name_or_path), "", sequence))
    if sequence is not None:
        raise fail(name_or_path, "sequence", sequence, "the sequence length stands in the hyper-parameters")
    return BuiltModel(model(name_or_path))


def _is_transformers_config(name_or_path: str) -> bool:
    if not name_or_path.endswith(".json"):
        return False
    document = read_document(name_or_path)
    return isinstance(document, dict) and "model_type" in document


def _imported(workload: "ImportedModel") -> "ImportedModel":
    """``workload``, its file there and its sequence length one that it can take.

    Raises:
        InputError: the file is missing, or takes no sequence length.
    """
    path = Path(workload.path)
    if not os.path.isfile(path):
        raise fail(path, "", "", "cannot be read: no such file")
    if workload.sequence is not None and (path.suffix == ".onnx" or not workload.takes_sequence()):
        raise fail(path, "sequence", workload.sequence, "the model has a sequence length of its own")
    return workload


def _read(path: Path) -> Hyperparameters:
    document = read_document(path)
    if isinstance(document, dict):
        document = dict(document)
        if "schema" not in document:
            raise fail(path, "schema", "", f"the key is missing; this format is {SCHEMA}")
        schema = document.pop("schema")
        if schema != SCHEMA:
            raise fail(path, "schema", schema, f"must be {SCHEMA}", nearest(str(schema), [SCHEMA]))
    return validate(Hyperparameters, document, path)
