"""Files that hold a step, in whatever form: what a file is, its content says."""

import re
from pathlib import Path

from dse.importer.hlo.json_form import module_from_document
from dse.importer.hlo.module import HloModule
from dse.importer.hlo.stablehlo import parse_stablehlo
from dse.importer.hlo.text import parse_hlo
from hardware.documents import parse_document, text_of
from hardware.inputs import fail

_MLIR = re.compile(r"(?:\s|//.*\n)*(?:[#!][\w.]+ = |module\b|\"builtin\.module\")")
_HLO = re.compile(r"(?:\s|//.*\n)*HloModule\s")
_SERIALISED = (".pb", ".hlo_pb")


def read_module(path: str | Path) -> HloModule:
    """The module in a file of HLO, as text or JSON, or of StableHLO.

    Raises:
        InputError: a file that cannot be read, of another form, or with a fault.
    """
    if Path(path).suffix in _SERIALISED:
        raise fail(path, "", "", "is a serialised HloProto; give the module as text or JSON")
    text = text_of(path)
    if text.lstrip()[:1] == "{":
        return module_from_document(parse_document(text, path), path)
    if _MLIR.match(text):
        return parse_stablehlo(text, str(path))
    if not _HLO.match(text):
        rule = (
            "must be HLO text (starting with HloModule NAME), HLO as JSON, or StableHLO text (starting with module "
            "@NAME)"
        )
        raise fail(path, "", text.lstrip().partition("\n")[0], rule)
    return parse_hlo(text, path)
