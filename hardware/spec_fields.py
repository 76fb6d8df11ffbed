"""Building blocks of every specification file: numbers that carry their source, and how a spec is located and read."""

from functools import cache
from importlib import resources
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import SMALLEST, choose, validate

_LARGEST = 1e30
_LARGEST_COUNT = 2**40

Positive = Annotated[float, Field(ge=SMALLEST, le=_LARGEST, allow_inf_nan=False)]
"""Within limits that no constant of a machine comes near, so that quotients and products stay finite."""

Share = Annotated[float, Field(ge=SMALLEST, le=1, allow_inf_nan=False)]
"""A part of a whole, and not nothing."""

PositiveInteger = Annotated[int, Field(gt=0, le=_LARGEST_COUNT)]
NonNegativeInteger = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
NonNegative = Annotated[float, Field(ge=0, le=_LARGEST, allow_inf_nan=False)]
Source = Annotated[str, Field(min_length=3)]

Spec = TypeVar("Spec", bound=BaseModel)
OtherSpec = TypeVar("OtherSpec", bound=BaseModel)

_SUFFIXES = (".yaml", ".yml", ".json")


class StrictModel(BaseModel):
    """Frozen, and refuses unknown keys, and true or false where a number stands."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic reads true as 1."""
        types = _types(cls.model_fields[str(info.field_name)].annotation)
        if types <= {int, float} and _has_boolean(value):
            number = "a whole number" if types == {int} else "a number"
            raise ValueError(
                f"must be {number}" if isinstance(value, bool) else "must contain numbers, not true or false"
            )
        return value


def _types(annotation: Any) -> set[Any]:
    """What a field, or its items where it is a list or table, may be, but for being left out."""
    parts, origin = get_args(annotation), get_origin(annotation)
    if origin in (Annotated, dict):
        return _types(parts[0 if origin is Annotated else 1])
    if parts:
        return {each for part in parts if part not in (Ellipsis, NoneType) for each in _types(part)}
    return {annotation}


def _has_boolean(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return any(map(_has_boolean, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


class Quantity(StrictModel):
    """A positive finite number and where it comes from.

    Attributes:
        value: the number.
        source: a document, with its table or section, or an assumption that is called one.
    """

    value: Positive
    source: Source


class Count(StrictModel):
    """A positive whole number and where it comes from.

    Attributes:
        value: the number.
        source: a document, with its table or section.
    """

    value: PositiveInteger
    source: Source


class Choice(StrictModel):
    """A yes/no decision of a model and where it comes from."""

    value: bool
    source: Source


def spec_names(folder: str) -> list[str]:
    """Names of the built-in specs of ``folder`` ("accelerators", "networks", …), sorted."""
    files = resources.files("hardware").joinpath("specs", folder)
    return sorted(file.name.removesuffix(".yaml") for file in files.iterdir() if file.name.endswith(".yaml"))


def is_path(name_or_path: str | Path) -> bool:
    """Whether this names a user's own file (it has a file suffix or a slash) and no built-in spec."""
    return isinstance(name_or_path, Path) or "/" in name_or_path or name_or_path.endswith(_SUFFIXES)


def beside(file: str | Path, name_or_path: str) -> str:
    """What a spec file names: a built-in name as it is, a path as seen from the folder of ``file``."""
    return str(Path(file).parent / name_or_path) if is_path(name_or_path) else name_or_path


class _AnySpec(BaseModel):
    """A spec of either of two kinds, before it is known which."""

    model_config = ConfigDict(extra="allow")


def read_spec_with(
    key: str, folder: str, name_or_path: str | Path, having: type[Spec], lacking: type[OtherSpec], what: str
) -> Spec | OtherSpec:
    """As :func:`read_spec` for a spec that is a ``having`` where it has ``key``, else a ``lacking``."""
    known = read_spec(folder, name_or_path, _AnySpec, what).model_extra or {}
    model: type[Spec | OtherSpec] = lacking if known.get(key) is None else having
    return read_spec(folder, name_or_path, model, what)


def read_spec(folder: str, name_or_path: str | Path, model: type[Spec], what: str) -> Spec:
    """The built-in spec ``name_or_path`` of ``folder``, or a user's own file when it has a file suffix or a slash.

    Raises:
        InputError: no built-in spec of this name (the nearest one is offered), an unreadable file, or any fault in it.
    """
    text = str(name_or_path)
    if is_path(name_or_path):
        return validate(model, read_document(text), text)
    spec: Spec = _built_in(folder, choose("", what, text, spec_names(folder), f"{what} spec"), model)
    return spec


@cache
def _built_in(folder: str, name: str, model: type[Spec]) -> Spec:
    # Part of the program, and no input: where it lies is nobody's business.
    with noting(), resources.as_file(resources.files("hardware").joinpath("specs", folder, f"{name}.yaml")) as path:
        return validate(model, read_document(path), f"{folder}/{name}.yaml")
