"""Docstrings as Markdown: cross-references, literal blocks and tables, which are written as in reStructuredText."""

import re
from pathlib import Path
from typing import Any

import griffe

ROLE = re.compile(r":(?:mod|func|class|data|meth|attr|exc):`(~?)([\w.]+)`")
LITERAL = re.compile(r"::$", re.MULTILINE)
TABLE = re.compile(r"^(=+(?: +=+)+)$.*^\1$", re.MULTILINE | re.DOTALL)


def markdown(text: str) -> str:
    """``text`` with code spans that link where the site has a page, with a colon before blocks, and tables as text."""

    def linked(role: re.Match[str]) -> str:
        shown = role[2].rpartition(".")[2] if role[1] else role[2]
        return f'<autoref optional identifier="{role[2]}"><code>{shown}</code></autoref>'

    text = TABLE.sub(lambda table: f"```text\n{ROLE.sub(lambda role: role[2], table[0])}\n```", text)
    return LITERAL.sub(":", ROLE.sub(linked, text))


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded, and keeps packages whose name a stub gives to a function."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Called when a file has been read: ``dse.codesign`` in ``dse/__init__.pyi`` would hide the package."""
        if isinstance(mod.filepath, Path) and mod.filepath.suffix == ".pyi":
            for name in [name for name in mod.members if (mod.filepath.parent / name).is_dir()]:
                del mod.members[name]

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
