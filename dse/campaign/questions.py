"""A cell as a question: the problem and its options, and how the command line asks the same."""

import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

from dse.campaign import COMMAND
from dse.campaign.problem import PROBLEM, Settings
from dse.problem import ProblemType, problem_type, registered
from dse.results.result import digest
from dse.run.options import OptionField, Options, as_option, option_fields, options_of
from hardware.inputs import fail


@cache
def type_of(name: str) -> ProblemType[Any, Any]:
    """The problem called ``name``, as a cell may have it.

    Raises:
        InputError: there is none of this name, or it is a campaign.
    """
    if name == COMMAND:
        raise fail("dse", PROBLEM, name, "must not be a campaign itself")
    return problem_type(name)


@cache
def _fields(name: str) -> Mapping[str, OptionField]:
    return {field.name: field for field in option_fields(type_of(name).Options)}


def question(settings: Settings) -> tuple[ProblemType[Any, Any], Options]:
    """The problem and the options that ``settings`` stand for.

    Raises:
        InputError: no problem, an option that it does not have, or a value that breaks its rule.
    """
    name = settings.get(PROBLEM)
    if not isinstance(name, str):
        raise fail("dse", PROBLEM, "", "must be given: the command that answers the cells")
    kind, fields = type_of(name), _fields(name)
    given = {}
    for option, value in settings.items():
        if option == PROBLEM:
            continue
        field = fields.get(option)
        if field is not None and field.option.is_output:
            raise fail(kind.Options.command(), field.flag, value, "must not be given: all cells would write this file")
        own = as_option(value, None if field is None else field.kind)
        given[option] = tuple(own) if isinstance(own, list) else own
    return kind, options_of(kind.Options, **given)


def content_key(settings: Settings, seed: int) -> str:
    """What a cell asks, as a digest: its problem, all its options, and the seed.

    Raises:
        InputError: as :func:`question`.
    """
    kind, options = question(settings)
    return digest([kind.name, options.document(), seed]).removeprefix("sha256:")


def command_line(settings: Settings) -> str:
    """The command that answers a cell alone."""
    name = settings[PROBLEM]
    verb, fields = registered()[name].verb, _fields(name)
    words, flags = ["dse", name, *([verb] if verb else [])], []
    for option, value in settings.items():
        if option == PROBLEM or option not in fields or value is None or value is False:
            continue
        field, values = fields[option], value if isinstance(value, list) else [value]
        if field.option.positional:
            words += map(str, values)
        elif value is True:
            flags.append(field.flag)
        elif field.kind in (str, str | None):
            flags += [field.flag, ",".join(map(str, values))]
        else:
            flags += [word for each in values for word in (field.flag, str(each))]
    return shlex.join([*words, *flags])
