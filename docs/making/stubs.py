"""The types of the Python interface: ``dse/__init__.pyi`` from the options of the problems, and those of results.

``python -m docs.making.stubs`` writes both files; a test compares them with options and models.
"""

import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from docs.making.documents import documents, types_of
from dse.problem import Registered, registered
from dse.run.options import OptionField, option_fields

PACKAGE = Path(__file__).parents[2] / "dse"
STUB, DOCUMENTS = PACKAGE / "__init__.pyi", PACKAGE / "results" / "documents.py"

HEAD = '''"""Types of the interface, written by ``python -m docs.making.stubs`` from the options of the problems."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from dse.results import documents
from dse.results.answer import Answer as Answer
from dse.run.progress import ProgressCallback, StopSignal

_Words = str | int | float | os.PathLike[str] | Sequence[str | int | float] | Mapping[str, Any]

class _Run(TypedDict, total=False):
    out: str | os.PathLike[str] | None
    resume: bool
    mirror: str | None
    seed: int
    workers: int | Literal["auto"]
    address: str | None
    time_limit: float | None
    item_timeout: float | None
    progress: ProgressCallback
    stop: StopSignal

__version__: str

def problems() -> dict[str, str]: ...
'''


def type_text(kind: Any) -> str:
    """The type of an option as a caller gives it: text may be numbers or a document, a tuple any sequence."""
    if get_origin(kind) in (Union, UnionType):
        parts = dict.fromkeys(type_text(each) for each in get_args(kind) if each is not NoneType)
        return " | ".join([*parts, "None"] if NoneType in get_args(kind) else parts)
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(json.dumps, get_args(kind)))}]"
    if get_origin(kind) is tuple or kind is str:
        return "_Words"
    return kind.__name__ if kind in (int, float, bool) else "object"


def function_text(problem: Registered) -> str:
    """The function of one problem."""
    name, fields = problem.name.replace("-", "_"), option_fields(problem.load().Options)
    lines = [f"    {each.name}: {_keyword(each)} = ...," for each in fields]
    types = ", ".join(f"documents.{each}" for each in types_of(problem))
    end = ["    **run: Unpack[_Run],", f") -> Answer[{types}]: ..."]
    return "\n".join([f"def {name}(", "    *sources: object,", *lines, *end])


def _keyword(field: OptionField) -> str:
    return "object" if field.option.is_source else type_text(field.kind)


def stub() -> str:
    """The whole file."""
    return HEAD + "\n".join(map(function_text, registered().values())) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    DOCUMENTS.write_text(documents(), encoding="utf-8")
