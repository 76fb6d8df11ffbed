"""What a user can ask of a problem: frozen dataclasses that validate themselves, and from which commands are made."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from hardware.inputs import Fault, InputError, fail, nearest, shown

STRICT = ConfigDict(extra="forbid", strict=True)
"""Values must be of their field's own type, and there are no other fields."""


@dataclass(frozen=True)
class Option:
    """How one field of options is offered: ``Annotated[int, Option("Samples per batch.", min=1)]``.

    Attributes:
        help: one sentence.
        min, max: the range of a number, both ends included.
        metavar: placeholder of the value in ``--help``.
        positional: whether it is an argument instead of an option; a tuple takes one or more.
        is_source: whether it names the input that a second argument of ``dse check`` replaces.
        is_output: whether it names an output file, which is not part of the problem.
        belongs_to: (another option, the values of it with which alone this one has a meaning).
        needs_out: whether it writes files, and so needs ``--out``.
        group: the heading under which ``--help`` has it; empty for the options that people need first.
    """

    help: str = ""
    min: float | None = None
    max: float | None = None
    metavar: str | None = None
    positional: bool = False
    is_source: bool = False
    is_output: bool = False
    belongs_to: tuple[str, ...] | None = None
    needs_out: bool = False
    group: str = ""


ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "global_batch": ("gbs", "global-batch-size"),
        "rate": ("load",),
        "sequence": ("seqlen", "seq-len", "seq-length", "sequence-length"),
        "microbatch": ("mbs", "micro-batch-size"),
    }
)
"""By the name of an option, what other tools call it; each is taken for it."""


def option_of(alias: str) -> str | None:
    """The option that other tools call so, or that is called so itself."""
    text = alias.lower().replace("_", "-")
    names = (name for name, others in ALIASES.items() if text in (*others, name.replace("_", "-")))
    return next((f"--{name.replace('_', '-')}" for name in names), None)


@dataclass(frozen=True)
class OptionField:
    """One field of a dataclass of options: name, type without its annotation, default (None where it is required)."""

    name: str
    kind: Any
    option: Option
    default: Any
    required: bool

    @property
    def flag(self) -> str:
        """As it is written on the command line and in errors."""
        return (self.option.metavar or self.name.upper()) if self.option.positional else f"--{self.key}"

    @property
    def flags(self) -> tuple[str, ...]:
        """All that the command line takes for it."""
        return f"--{self.key}", *(f"--{alias}" for alias in ALIASES.get(self.name, ()))

    @property
    def key(self) -> str:
        """The name with dashes; a name that is a word of Python ends in one underscore, which is left out."""
        return self.name.removesuffix("_").replace("_", "-")


@dataclass(frozen=True)
class Options:
    """Base of every problem's options. A subclass is a frozen dataclass that states ``COMMAND``.

    Raises:
        InputError: a value of another type or outside its range, one fault each, named as on the command line.
    """

    def __post_init__(self) -> None:
        model, values = _model_of(type(self)), {each.name: getattr(self, each.name) for each in fields(self)}
        try:
            model.model_validate(values)
        except ValidationError as error:
            raise InputError(_faults(type(self), error)) from error

    @classmethod
    def command(cls) -> str:
        """The command whose options these are, for errors."""
        return f"dse {getattr(cls, 'COMMAND', '')}".strip()

    def document(self) -> dict[str, Any]:
        """The options as JSON types, without those that name output files."""
        outputs = {each.name for each in option_fields(type(self)) if each.option.is_output}
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self) if each.name not in outputs}

    @classmethod
    def from_document(cls, document: Any, file: str, key: str) -> Self:
        """The options that :meth:`document` wrote, under ``key`` of ``file``.

        Raises:
            InputError: anything that is not an option, or of another type.
        """
        if not isinstance(document, dict):
            raise fail(file, key, document, f"must contain the options of {cls.command()}")
        try:
            values = _model_of(cls).model_validate_json(json.dumps(document))
        except ValidationError as error:
            names = [each.name for each in fields(cls)]
            raise InputError(
                Fault(
                    file,
                    ".".join([key, *map(str, item["loc"])]),
                    "" if item["type"] == "missing" else shown(item["input"]),
                    f"must contain the options of {cls.command()}: {_rule(item)}",
                    nearest(str(item["loc"][0]), names) if item["type"] == "extra_forbidden" else None,
                )
                for item in error.errors()
            ) from error
        return cls(**{name: getattr(values, name) for name in type(values).model_fields})


def option_fields(kind: type[Options]) -> tuple[OptionField, ...]:
    """The fields of a dataclass of options, in their order."""
    return _option_fields(kind)


def _fields_of(kind: type[Options]) -> tuple[OptionField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    result = []
    for each in fields(kind):
        hint = hints[each.name]
        annotated = get_origin(hint) is Annotated
        option = next((item for item in hint.__metadata__ if isinstance(item, Option)), None) if annotated else None
        required = each.default is MISSING and each.default_factory is MISSING
        default = None if required or each.default is MISSING else each.default
        bare = get_args(hint)[0] if annotated else hint
        result.append(OptionField(each.name, bare, option or Option(), default, required))
    return tuple(result)


# Any stands for type[Options]: for mypy, classes of frozen dataclasses are not hashable.
_option_fields: Callable[[Any], tuple[OptionField, ...]] = cache(_fields_of)
"""Those of each class: to resolve its annotations takes longer than to check a small result."""


def _new_model(kind: type[Options]) -> type[BaseModel]:
    """A model with the same fields: what judges them."""
    definitions: dict[str, Any] = {}
    for each in option_fields(kind):
        low, high = each.option.min, each.option.max
        default = ... if each.required else each.default
        definitions[each.name] = (
            each.kind if low is high is None else Annotated[each.kind, Field(ge=low, le=high)],
            default,
        )
    config = STRICT | ConfigDict(arbitrary_types_allowed=True)
    model: type[BaseModel] = create_model(kind.__name__, __config__=config, **definitions)
    return model


_model_of: Callable[[Any], type[BaseModel]] = cache(_new_model)
"""The model of each class: making one takes longer than to check a small result."""


_RULES = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "missing": "must be given",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "extra_forbidden": "no such option",
}


def _rule(item: Any) -> str:
    rule = _RULES.get(item["type"])
    if rule is not None:
        return rule.format(**{key: f"{value:,}" for key, value in item.get("ctx", {}).items()})
    message = str(item["msg"]).removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _faults(kind: type[Options], error: ValidationError) -> list[Fault]:
    by_name = {each.name: each for each in option_fields(kind)}
    faults = []
    for item in error.errors():
        each = by_name[str(item["loc"][0])]
        choices = get_args(each.kind) if item["type"] == "literal_error" else ()
        hint = nearest(str(item["input"]), [str(choice) for choice in choices]) if choices else None
        faults.append(Fault(kind.command(), each.flag, shown(item["input"]), _rule(item), hint))
    return faults


def is_object(setting: Any) -> bool:
    """Whether a setting in JSON types stands for an object of Python, or holds one."""
    if isinstance(setting, list):
        return any(map(is_object, setting))
    return isinstance(setting, str) and setting.startswith("<") and setting.endswith(">")


def _plain(value: Any) -> Any:
    """A value of an option in JSON types."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, os.PathLike) else f"<{type(value).__name__}>"


OptionsT = TypeVar("OptionsT", bound=Options)


def options_of(kind: type[OptionsT], **given: Any) -> OptionsT:
    """Options from keyword arguments.

    Raises:
        InputError: a name that is not an option (the nearest one is offered), one that is missing, or a value that
            breaks its rule.
    """
    known = {each.name: each for each in option_fields(kind)}
    faults = [
        Fault(kind.command(), name, "", f"no such option; known: {', '.join(known)}", nearest(name, known))
        for name in given
        if name not in known
    ]
    faults += [
        Fault(kind.command(), each.flag, "", "must be given")
        for name, each in known.items()
        if each.required and name not in given
    ]
    if faults:
        raise InputError(faults)
    return kind(**given)


def as_option(value: Any, kind: Any) -> Any:
    """A value of an option in its type: a text becomes a list of one, numbers become text."""
    if kind in (str, str | None):
        return _as_text(value)
    return [value] if get_origin(kind) is tuple and isinstance(value, str | os.PathLike | Mapping) else value


def _as_text(value: Any) -> Any:
    """Numbers, and lists of them, as the command line takes them."""
    if isinstance(value, list | tuple) and all(isinstance(each, int | float | str) for each in value):
        return ",".join(map(str, value))
    return str(value) if type(value) in (int, float) else value
