"""The graph of a user's ``FILE.py:FUNCTION``, which a result carries: nobody else has to run the code.

While :func:`hardware.input_files.no_code` is in force, as for a result that somebody sent, graphs are taken from what
is carried, and none is made by running code.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from dse.graph.step import StepGraph
from dse.graph.trace import Trace
from dse.importer.user_file import parameters_of
from dse.importer.user_function import document_of, graph_of
from dse.sources.kinds import PythonFunction
from hardware.documents import parse_document
from hardware.input_files import bytes_of, carried_file, note_document, note_files, noting, runs_code
from hardware.inputs import Fault, InputError, fail

Graph = TypeVar("Graph", Trace, StepGraph)


def code_file(name: str) -> Path | None:
    """Where a file of code was, which is noted as it is carried; None where code may be run, and is read again."""
    file = None if runs_code() else carried_file(name)
    if file is None:
        return None
    note_files({name: file})
    return Path(file.path)


def user_graph(source: PythonFunction, sizes: Mapping[str, Any], kind: type[Graph], make: Callable[[], Graph]) -> Graph:
    """The graph that the function gives for ``sizes``: made now and noted as an input, or the one that is carried.

    Args:
        source: the function.
        sizes: what it depends on.
        kind: of graph.
        make: runs the code, and notes the user's files.

    Raises:
        InputError: what ``make`` raised, also when it was asked before; or code would have to run and must not.
    """
    parameters_of(source.path, source.function)  # notes the text; a file that is not Python is refused with its line
    digest = hashlib.sha256(bytes_of(source.path)).hexdigest()[:12]
    asked: list[str] = [f"{key} {value}" for key, value in sizes.items()]
    name = ", ".join([f"graph of {source.path.name}:{source.function} ({digest})", *asked])
    if not runs_code():
        return _carried_graph(source, name, kind)
    failure = None
    with noting() as files:
        try:
            graph = make()
            answer = {"graph": document_of(graph)}
        except InputError as error:
            failure, answer = error, {"faults": [asdict(fault) for fault in error.faults]}
    note_files(files)
    note_document(name, json.dumps({**answer, "files": sorted(files)}, separators=(",", ":")))
    if failure is not None:
        raise failure
    return graph


def _carried_graph(source: PythonFunction, name: str, kind: type[Graph]) -> Graph:
    file = carried_file(name)
    if file is None or file.text is None:
        rule = "the result contains no graph of this function; use --run-code to run its code"
        raise fail(source.path, source.function, "", rule)
    document = parse_document(file.text, "inputs.json")
    note_files({name: file})
    try:
        for each in document["files"]:
            if (code := carried_file(each)) is not None:
                note_files({each: code})
        if "graph" in document:
            return graph_of(document["graph"], kind, name)
        faults = [Fault(**fault) for fault in document["faults"]]
    except (KeyError, TypeError) as error:
        raise fail(name, "", "", f"must be a graph that a result contains: {' '.join(str(error).split())}") from error
    raise InputError(faults)
