"""What a user's ``FILE.py:FUNCTION`` gives, as data: the part of the importer that runs in a process of its own.

A request and its answer consist of JSON types, so that the program never unpickles what a user's code had a hand in.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from dse.graph.step import StepGraph
from dse.graph.trace import Trace
from dse.importer.user_file import function_of, loaded, takes
from hardware.inputs import InputError, fail

Graph = TypeVar("Graph", Trace, StepGraph)


def answered(request: Mapping[str, Any]) -> dict[str, Any]:
    """``{"graph": …, "files": [the user's files that it was made of]}``, or ``{"faults": […]}``.

    A graph is a trace for the kind ``trace``; for the kind ``step`` a step graph, or the text of HLO.
    """
    path, function = Path(request["path"]), str(request["function"])
    try:
        if request["kind"] == "trace":
            from dse.importer.torch.source import trace_function

            trace, files = trace_function(path, function, request["name"], request["sizes"], request["mode"])
            graph: Any = document_of(trace)
        else:
            graph, files = _step(path, function)
    except InputError as error:
        return {"faults": [asdict(fault) for fault in error.faults]}
    return {"graph": graph, "files": [str(file) for file in files]}


def _step(path: Path, name: str) -> tuple[Any, tuple[Path, ...]]:
    """The step that a user's function returns: one of JAX, or a module of PyTorch; and the user's files."""
    from dse.importer.torch.source import answer_of, is_module_with_inputs

    with loaded(path) as file:
        function = function_of(file, name)
        needed = [key for key, required in takes(function).items() if required]
        if needed:
            raise fail(path, name, ", ".join(needed), "the function must have no parameters")
        answer = answer_of(function, {}, path)
        if is_module_with_inputs(answer):
            from dse.importer.torch.step import Training, step_of_module

            module, inputs, *targets = answer
            graph = document_of(step_of_module(module, inputs, Training.of_file(file, *targets), name))
        else:
            from dse.importer.jax.step import step_text

            graph = step_text(answer, path, name)
    return graph, tuple(file.local_files)


def document_of(graph: Trace | StepGraph) -> Any:
    """``graph`` in JSON types."""
    return TypeAdapter(type(graph)).dump_python(graph)


def graph_of(document: Any, kind: type[Graph], where: str) -> Graph:
    """The inverse of :func:`document_of`.

    Raises:
        InputError: it is not a graph of this kind, or names values that it does not have.
    """
    try:
        graph: Graph = TypeAdapter(kind).validate_python(document)
    except ValueError as error:  # pydantic's is one
        raise fail(where, "", "", f"is not a valid {kind.__name__}: {' '.join(str(error).split())[:300]}") from error
    count = len(graph.values)
    if not all(0 <= number < count for number in _references(graph)):
        raise fail(where, "", "", f"refers to a value beyond its {count} values")
    return graph


def _references(graph: Trace | StepGraph) -> list[int]:
    """Every position in the graph's values that it contains."""
    if isinstance(graph, Trace):
        bases = [value.base for value in graph.values if value.base is not None]
        steps = [number for step in graph.steps for number in (*step.inputs, *step.outputs)]
        return [*bases, *steps, *graph.outputs]
    arguments = [argument.value for argument in graph.arguments]
    return [*arguments, *graph.results, *(n for each in graph.operations for n in (*each.operands, *each.results))]
