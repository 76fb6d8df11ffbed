"""Kernel types: which convolutions a kernel consists of. Users add types as YAML or in Python.

In Python::

    KernelType("pointwise", ("h", "w", "f"), lambda p: [Convolution(p["h"], p["w"], 1, 1, p["f"], p["f"])])

In YAML as :file:`kernels.yaml`, which holds the contest's own types.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dse.wafer.problem import Convolution
from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import choose, fail, shown, validate

RESERVED = ("input", "output")
"""Nodes of a graph that are not kernels."""

_BUILT_IN = Path(__file__).with_name("kernels.yaml")

_LARGEST = 2**20
"""Of a convolution's sizes."""

_MAX_CHARACTERS = 200
"""Of an expression."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD_RULE = "a word of ASCII letters, digits and underscores that does not begin with a digit"


class KernelRuleError(ValueError):
    """Formal parameters that a kernel type cannot have; the message states the rule."""


@dataclass(frozen=True)
class KernelType:
    """A kind of kernel.

    Attributes:
        name: as in ``.kgraph``.
        parameters: names of its formal parameters.
        convolutions: what a kernel with these parameters consists of; may raise :class:`KernelRuleError`.
        written: the order of the formal parameters in ``.paint``; None for that of ``parameters``.
    """

    name: str
    parameters: tuple[str, ...]
    convolutions: Callable[[Mapping[str, int]], Sequence[Convolution]]
    written: tuple[str, ...] | None = None

    def build(self, values: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[Convolution, ...]]:
        """(formal parameters as they are written, convolutions) of a kernel with ``values`` of all parameters.

        Raises:
            KernelRuleError: the type cannot have these values, or the function of a type in Python gives anything but
                convolutions of whole numbers from 1 to :data:`_LARGEST`.
        """
        convolutions = _judged(self.convolutions(values))
        return tuple(values[name] for name in self.written or self.parameters), convolutions


def _judged(built: object) -> tuple[Convolution, ...]:
    """What the function of a kernel type gave, where it is convolutions."""
    if not isinstance(built, Iterable):
        raise KernelRuleError(f"must return a sequence of Convolution, but returned {shown(repr(built))}")
    convolutions = tuple(built)
    if not convolutions:
        raise KernelRuleError("must have at least one convolution")
    for number, each in enumerate(convolutions, 1):
        if not isinstance(each, Convolution):
            raise KernelRuleError(f"convolution {number} must be a Convolution, but got {shown(repr(each))}")
        for letter, field in zip("HWRSCKT", fields(Convolution), strict=True):
            value = getattr(each, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
                rule = f"{letter} of convolution {number} must be a whole number from 1 to {_LARGEST}"
                raise KernelRuleError(f"{rule}, but got {shown(repr(value))}")
    return convolutions


class KernelLibrary:
    """Kernel types by name; immutable."""

    def __init__(self, types: Iterable[KernelType]) -> None:
        self._types = {each.name: each for each in types}

    @property
    def names(self) -> tuple[str, ...]:
        """Of all types."""
        return tuple(self._types)

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def __getitem__(self, name: str) -> KernelType:
        return self._types[name]

    def with_types(self, types: Iterable[KernelType]) -> "KernelLibrary":
        """The library with more types; one of a name that is there takes its place."""
        return KernelLibrary([*self._types.values(), *types])


Expression = str
"""``f / 4``: whole numbers, names of parameters, +, −, *, / (exact) and parentheses."""


def _expression(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("must be a whole number or an expression such as f / 4")
    return value


_Expression = Annotated[str, BeforeValidator(_expression)]
_Names = Annotated[list[str], Field(min_length=1)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ConvolutionDocument(_Document):
    """A convolution of a kernel type. Sizes are whole numbers from 1 to 2²⁰, or expressions of the type's parameters
    with ``+``, ``-``, ``*``, ``/`` (without remainder) and parentheses.

    Attributes:
        height, width: of its image.
        window_height, window_width: of its window.
        inputs, outputs: features.
        stride: in both directions.
        other_stride: equal to T.
    """

    height: Annotated[_Expression, Field(alias="H")]
    width: Annotated[_Expression, Field(alias="W")]
    window_height: Annotated[_Expression, Field(alias="R")]
    window_width: Annotated[_Expression, Field(alias="S")]
    inputs: Annotated[_Expression, Field(alias="C")]
    outputs: Annotated[_Expression, Field(alias="K")]
    stride: Annotated[_Expression, Field(alias="T")] = "1"
    other_stride: Annotated[_Expression | None, Field(alias="U")] = None

    def expressions(self) -> Iterator[tuple[str, str]]:
        """(field, expression) of what is given."""
        return ((field, text) for field, text in self if text is not None)


class TypeDocument(_Document):
    """A kernel type.

    Attributes:
        parameters: names of its formal parameters, as in ``.kgraph``.
        written: their order in ``.paint``; that of ``parameters`` where it is left out.
        convolutions: what a kernel consists of, from left to right.
    """

    parameters: _Names
    written: _Names | None = None
    convolutions: Annotated[list[ConvolutionDocument], Field(min_length=1)]


class LibraryDocument(_Document):
    """A ``dse.kernels/1`` document: kernel types that are added, or replace those of their names.

    Attributes:
        source: where the types are from; ignored.
        kernels: types by name.
    """

    version: Annotated[Literal["dse.kernels/1"], Field(alias="schema")]
    source: str = ""
    kernels: Annotated[dict[str, TypeDocument], Field(min_length=1)]


@cache
def contest_library() -> KernelLibrary:
    """``conv``, ``dblock`` and ``cblock`` of the ISPD 2020 contest."""
    with noting():  # it is part of the program, not an input; read once, it would be noted in the first answer alone
        return KernelLibrary(read_types(_BUILT_IN))


def read_library(path: str | Path | None) -> KernelLibrary:
    """The contest's types and those of the file ``path`` (``dse.kernels/1``), where one is given.

    Raises:
        InputError: the file is malformed.
    """
    return contest_library() if path is None else contest_library().with_types(read_types(path))


def read_types(path: str | Path) -> tuple[KernelType, ...]:
    """The kernel types in a YAML or JSON file.

    Raises:
        InputError: the file is malformed, or names parameters that its types do not have.
    """
    parsed = validate(LibraryDocument, read_document(path), path)
    return tuple(_type(name, entry, path) for name, entry in parsed.kernels.items())


def _type(name: str, entry: TypeDocument, path: str | Path) -> KernelType:
    if name in RESERVED:
        raise fail(path, f"kernels.{name}", "", f"must not be {' or '.join(RESERVED)}, which are reserved")
    if not _WORD.fullmatch(name):
        raise fail(path, f"kernels.{name}", "", f"must be {_WORD_RULE}")
    for number, parameter in enumerate(entry.parameters):
        if not _WORD.fullmatch(parameter):
            rule = f"must be {_WORD_RULE}, because .kgraph files write it as KEY=VALUE"
            raise fail(path, f"kernels.{name}.parameters.{number}", parameter, rule)
    if len(set(entry.parameters)) < len(entry.parameters):
        raise fail(path, f"kernels.{name}.parameters", entry.parameters, "parameters must be unique")
    if entry.written is not None and sorted(entry.written) != sorted(entry.parameters):
        raise fail(path, f"kernels.{name}.written", entry.written, "must be a permutation of the parameters")
    for number, convolution in enumerate(entry.convolutions):
        for field, text in convolution.expressions():
            alias = ConvolutionDocument.model_fields[field].alias
            _check_expression(text, entry.parameters, path, f"kernels.{name}.convolutions.{number}.{alias}")
    written = None if entry.written is None else tuple(entry.written)
    return KernelType(name, tuple(entry.parameters), _Expanded(tuple(entry.convolutions)), written)


@dataclass(frozen=True)
class _Expanded:
    """The convolutions of a kernel by their expressions."""

    documents: tuple[ConvolutionDocument, ...]

    def __call__(self, values: Mapping[str, int]) -> list[Convolution]:
        convolutions = []
        for document in self.documents:
            sizes = {field: _value(text, values) for field, text in document.expressions()}
            if sizes.pop("other_stride", sizes["stride"]) != sizes["stride"]:
                raise KernelRuleError("the strides T and U must be equal, because time is divided by T²")
            convolutions.append(Convolution(**sizes))
        return convolutions


_OPERATIONS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _check_expression(text: str, names: Iterable[str], path: str | Path, key: str) -> None:
    """Raises InputError unless ``text`` is an :data:`Expression` of ``names``."""
    rule = "must be an expression of whole numbers and parameters with +, -, * and /"
    if len(text) > _MAX_CHARACTERS:
        raise fail(path, key, text, f"{rule}, at most {_MAX_CHARACTERS} characters long")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise fail(path, key, text, rule) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            choose(str(path), key, node.id, names, "parameter")
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            continue
        elif not (
            isinstance(node, (ast.operator, ast.Load)) or (isinstance(node, ast.Constant) and _whole(text, node))
        ):
            raise fail(path, key, text, rule)


def _whole(text: str, node: ast.Constant) -> bool:
    """Whether a number is written in digits alone: Python also has ``1_0`` and ``0x10``."""
    return (ast.get_source_segment(text, node) or "").isdecimal()


def _value(text: str, values: Mapping[str, int]) -> int:
    """The value of a checked expression.

    Raises:
        KernelRuleError: a division leaves a remainder, or the value is not from 1 to :data:`_LARGEST`.
    """

    def of(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return values[node.id]
        assert isinstance(node, ast.BinOp)
        left, right = of(node.left), of(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if right == 0 or left % right:
            raise KernelRuleError(f"{ast.unparse(node)} must be a whole number, but got {left} / {right}")
        return left // right

    value = of(ast.parse(text, mode="eval").body)
    if not 1 <= value <= _LARGEST:
        raise KernelRuleError(f"{text} must be from 1 to {_LARGEST}, but got {value}")
    return value
