"""The options of a command, read back from a result that says it answers them."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hardware.inputs import fail, nearest

STRICT = ConfigDict(extra="forbid", strict=True)
"""The ``__pydantic_config__`` of a dataclass of options."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Options = TypeVar("Options", bound=_Dataclass)


def options_of(kind: type[Options], document: Any, path: str | Path, key: str, command: str) -> Options:
    """The options of ``command``, a dataclass ``kind``, as they stand under ``key`` of the file ``path``.

    Raises:
        InputError: anything that is no option, or of another type.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(document))
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join([key, *map(str, item["loc"])])
        hint = nearest(str(item["loc"][-1]), [each.name for each in fields(kind)]) if item["loc"] else None
        raise fail(path, where, str(document)[:60], f"must hold the options of {command}", hint) from error
