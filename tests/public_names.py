"""What a Python file uses of other packages that is not public, as far as its syntax tree shows it."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec

OURS = frozenset({"actors", "benchmarks", "docs", "dse", "hardware", "policies", "tests"})

INTERNAL = ("numba.core", "ray.autoscaler", "ray.tune.execution")
"""Packages without an underscore that their projects do not document as an interface."""

DOCUMENTED = frozenset(
    {"_asdict", "_exit", "_field_defaults", "_fields", "_getframe", "_make", "_replace", "_repr_html_"}
)
"""Names with an underscore that are documented: of named tuples, ``os._exit``, ``sys._getframe``, and of notebooks."""

_DOTTED = re.compile(r"[A-Za-z]\w*(\.\w+)+")


def is_private(name: str) -> bool:
    """Whether a name, or a part of a dotted one, begins with one underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split(".") if part != "_")


@dataclass(frozen=True)
class Use:
    """A private name, where it stands and how it is used."""

    line: int
    name: str
    how: str


@dataclass
class _File:
    """What a file imports: the dotted name of each name that it binds."""

    imported: dict[str, str] = field(default_factory=dict)

    def origin(self, node: ast.expr) -> str | None:
        """The dotted name of what ``node`` names, where that was imported."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        return ".".join([self.imported[node.id], *reversed(parts)])


def defined_names(tree: ast.Module) -> set[str]:
    """The private names that a file defines: functions, classes, variables, parameters, attributes of ``self``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
    return {name for name in names if is_private(name)}


def imported_modules(tree: ast.Module) -> set[str]:
    """The dotted names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def module_files(module: str) -> tuple[str, str]:
    """The two files of which a module may be."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def private_uses(tree: ast.Module, defined: set[str]) -> list[Use]:
    """Private names of other packages. ``defined``: those that may be this project's own in this file."""
    file = _File()
    uses = []
    for node in ast.walk(tree):
        uses += _imports(node, file)
    for node in ast.walk(tree):
        uses += _names(node, file, defined)
        uses += _replacements(node, file)
    return uses


def _foreign(origin: str | None) -> bool:
    return origin is not None and origin.split(".")[0] not in OURS


def _outside(origin: str | None) -> bool:
    """Of a package that is neither ours nor Python's own."""
    return _foreign(origin) and str(origin).split(".")[0] not in sys.stdlib_module_names


def _hidden(origin: str) -> bool:
    return (is_private(origin) and origin.split(".")[-1] not in DOCUMENTED) or any(
        origin == package or origin.startswith(f"{package}.") for package in INTERNAL
    )


def _imports(node: ast.AST, file: _File) -> Iterator[Use]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            file.imported[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )
            if _foreign(alias.name) and _hidden(alias.name):
                yield Use(node.lineno, alias.name, "imported")
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            origin = f"{node.module}.{alias.name}"
            file.imported[alias.asname or alias.name] = origin
            if _foreign(origin) and _hidden(origin):
                yield Use(node.lineno, origin, "imported")


def _names(node: ast.AST, file: _File, defined: set[str]) -> Iterator[Use]:
    match node:
        case ast.Attribute(attr=name) if is_private(name) and name not in DOCUMENTED:
            origin = file.origin(node)
            if _foreign(origin) or (origin is None and name not in defined):
                yield Use(node.lineno, name if origin is None else origin, "used")
        case ast.Attribute():
            origin = file.origin(node)
            if origin and _foreign(origin) and origin in INTERNAL:
                yield Use(node.lineno, origin, "used")
        case ast.Call(func=function, keywords=keywords):
            for keyword in keywords:
                if keyword.arg and is_private(keyword.arg) and _foreign(file.origin(function)):
                    yield Use(node.lineno, f"{file.origin(function)}({keyword.arg}=…)", "given")
        case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text) and is_private(text):
            if _outside(text) and find_spec(text.split(".")[0]) is not None:
                yield Use(node.lineno, text, "named")
        case ast.ClassDef(bases=bases) if any(_outside(file.origin(base)) for base in bases):
            used = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and not _of_base(each)}
            for method in node.body:
                # What a decorator takes is called by it.
                is_method = isinstance(method, ast.FunctionDef) and not method.decorator_list
                if is_method and is_private(method.name) and method.name not in used:
                    yield Use(method.lineno, method.name, "overridden")


def _of_base(node: ast.Attribute) -> bool:
    """Whether it is an attribute of ``super()``."""
    return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"


def _replacements(node: ast.AST, file: _File) -> Iterator[Use]:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) if _outside(origin := file.origin(node)):
            yield Use(node.lineno, str(origin), "replaced")
        case ast.Call(func=function, args=[owner, ast.Constant(value=str(name)), _, *_]) if _sets(function):
            if _outside(origin := file.origin(owner)):
                yield Use(node.lineno, f"{origin}.{name}", "replaced")
        case ast.Call(func=ast.Attribute(attr="setattr" | "patch"), args=[ast.Constant(value=str(name)), *_]):
            if _DOTTED.fullmatch(name) and _outside(name):
                yield Use(node.lineno, name, "replaced")


def _sets(function: ast.expr) -> bool:
    """Whether it is ``setattr``, ``monkeypatch.setattr`` or ``mock.patch.object``."""
    return (isinstance(function, ast.Name) and function.id == "setattr") or (
        isinstance(function, ast.Attribute) and function.attr in ("setattr", "object")
    )
