"""Canonical traces on disk, so that a model is traced once and PyTorch is not even imported the second time.

An entry is one JSON file named by the digest of the request: the source and its function, the sizes, and the
versions of the libraries. It holds the digests of all files that the trace was made of; when one of them has changed,
or the entry is damaged or written by another version of this format, it is as if it were not there.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dse.graph
import dse.importer
from dse.graph.trace import Step, Trace, Value
from dse.run.cache import cache_directory, source_digest
from dse.run.directory import write_text
from hardware.input_files import bytes_of, note
from hardware.inputs import InputError

_SCHEMA = "dse.trace/1"
_LIBRARIES = ("torch", "transformers", "onnx")


def cached(request: Mapping[str, Any]) -> Trace | None:
    """The trace of ``request`` (what decides it in addition to the content of files), whose files are noted; or
    None.
    """
    try:
        document = json.loads(_entry(request).read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            return None
        contents = {file: bytes_of(file) for file in document["files"]}
        if any(hashlib.sha256(contents[file]).hexdigest() != digest for file, digest in document["files"].items()):
            return None
        trace = decoded(document["trace"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    for file, content in contents.items():
        note(file, content)
    return trace


def keep(request: Mapping[str, Any], files: Iterable[Path], trace: Trace) -> None:
    """Keep ``trace``, made of ``files``, as the answer to ``request``. Does nothing where it cannot write."""
    document = {
        "schema": _SCHEMA,
        "files": {str(file): file_digest(file) for file in files},
        "trace": encoded(trace),
    }
    try:
        write_text(_entry(request), json.dumps(document, separators=(",", ":")))
    except InputError:
        return


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(bytes_of(path)).hexdigest()


def trace_digest(trace: Trace) -> str:
    """SHA-256 of everything in a trace but where its steps came from."""
    steps = [[step.kind, step.inputs, step.outputs, dict(step.attributes)] for step in trace.steps]
    content = [trace.microbatch, [_row(value) for value in trace.values], steps, trace.outputs]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def encoded(trace: Trace) -> dict[str, Any]:
    """``trace`` as JSON types."""
    return {
        "name": trace.name,
        "microbatch": trace.microbatch,
        "values": [_row(value) for value in trace.values],
        "steps": [[step.kind, step.inputs, step.outputs, dict(step.attributes), step.where] for step in trace.steps],
        "outputs": trace.outputs,
    }


def decoded(document: Mapping[str, Any]) -> Trace:
    """The inverse of :func:`encoded`."""
    return Trace(
        name=document["name"],
        microbatch=document["microbatch"],
        values=tuple(Value(name, tuple(shape), *rest) for name, shape, *rest in document["values"]),
        steps=tuple(
            Step(
                kind,
                tuple(inputs),
                tuple(outputs),
                {key: tuple(item) if isinstance(item, list) else item for key, item in attributes.items()},
                where,
            )
            for kind, inputs, outputs, attributes, where in document["steps"]
        ),
        outputs=tuple(document["outputs"]),
    )


def _row(value: Value) -> list[Any]:
    return [value.name, value.shape, value.dtype, value.role, value.base]


def _entry(request: Mapping[str, Any]) -> Path:
    # A changed rule of the importer makes other traces of the same module.
    versions = {library: _version(library) for library in _LIBRARIES} | {
        "importer": source_digest(dse.importer, dse.graph)
    }
    identity = {**request, "versions": versions}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_directory("traces") / f"{digest[:40]}.json"


_installed = cache(version)


def _version(library: str) -> str | None:
    try:
        return _installed(library)
    except PackageNotFoundError:  # is not remembered: a notebook may install it
        return None
