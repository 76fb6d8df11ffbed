"""Which files are profiles of other planners, and what is in them."""

import os
from pathlib import Path

from dse.parallel.pipeline.pipedream import MARK, read_pipedream
from dse.parallel.pipeline.piper import KEYS, read_piper
from dse.parallel.pipeline.profiled_graph import ProfiledGraph
from hardware.documents import read_document, text_of, unpacked
from hardware.input_files import is_file

_BEGINNING = 4096
"""Bytes by which a file is known."""


def profiled_graph(source: object) -> ProfiledGraph | None:
    """The profile in the file that ``source`` names, where it is one of PipeDream or Piper; None for anything else.

    Raises:
        InputError: whatever is wrong with such a file.
    """
    if not isinstance(source, str | os.PathLike) or not is_file(path := os.fsdecode(source)):
        return None
    beginning = unpacked(path)[:_BEGINNING].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if MARK.match(beginning):
        return read_pipedream(text_of(path), path)
    if Path(path).suffix == ".json" and beginning.startswith("{"):
        document = read_document(path)
        if isinstance(document, dict) and set(document) >= KEYS and "schema" not in document:  # which ours have
            return read_piper(document, path)
    return None
