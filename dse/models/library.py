"""Finding models: the built-in ones by name, a user's own by file."""

from importlib import resources
from pathlib import Path

from dse.models.hyperparameters import SCHEMA, Hyperparameters
from dse.models.workload import BuiltModel, Workload
from hardware.inputs import choose, fail, nearest, read_document, validate

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
        raise fail(text, "", "", "models from Python functions are not read yet; give a YAML file of hyper-parameters")
    if isinstance(name_or_path, Path) or text.endswith(_SUFFIXES) or "/" in text:
        return _read(Path(text))
    name = choose("", "model", text, list_models(), "built-in model")
    with resources.as_file(resources.files("dse.models").joinpath("zoo", f"{name}.yaml")) as path:
        return _read(path)


def workload(name_or_path: str, sequence: int | None = None) -> Workload:
    """What trains: a built-in model by name, or a user's own file.

    Raises:
        InputError: as :func:`model`.
    """
    return BuiltModel(model(name_or_path))


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
