"""Training steps: what a user names as one, and its graph."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from dse.graph.step import StepGraph
from dse.importer.hlo.file import read_module
from dse.importer.hlo.flatten import UnfinishedStepError, step_graph
from dse.importer.hlo.json_form import KEYS, module_from_document
from dse.importer.hlo.module import HloModule
from dse.importer.hlo.roles import with_trained
from dse.importer.hlo.text import parse_hlo
from dse.importer.user_function import graph_of
from dse.importer.user_process import ask
from dse.sharding.hlo.table import step_factors
from dse.sources.kinds import ProblemFormat, ProblemInput, PythonFunction, StepSource
from dse.sources.resolve import STEP_SUFFIXES, python_function
from dse.sources.user_graphs import user_graph
from hardware.documents import text_of
from hardware.input_files import bytes_of, is_file, note
from hardware.inputs import InputError, fail, nearest

STEP = ProblemFormat(
    "a step as HLO or StableHLO (.hlo, .txt, .json, .mlir)",
    suffixes=STEP_SUFFIXES,
    keys=KEYS,
    object_type=StepGraph,
)
"""What problems other than ``dse parallel`` can read of training steps: those in files, and graphs."""

_ACCEPTED = "a file with HLO (text or JSON), StableHLO or an IOPDDL problem, or FILE.py:FUNCTION"
_MAX_LISTED = 200


def resolve_step(source: object) -> StepSource:
    """The training step that ``source`` names.

    Args:
        source: text or a path: a file of any name that holds HLO; ``FILE.py:FUNCTION``, a function without parameters
            that returns a step of JAX and its arguments, or a module of PyTorch and its inputs; what such a function
            returns; a ``jax.stages.Lowered``; a :class:`~dse.graph.step.StepGraph`; or what this function returned.
            With a module, its inputs and targets may come its loss.

    Raises:
        InputError: no such file (the nearest name in its folder is offered), or an object of another type.
    """
    if isinstance(source, ProblemInput):
        return source
    if isinstance(source, StepGraph):
        return ProblemInput(STEP, source.name, source)
    if _is_lowered(source) or (isinstance(source, tuple) and len(source) > 1 and callable(source[0])):
        return ProblemInput(STEP, "step", source)
    if not isinstance(source, str | os.PathLike):
        rule = f"must be {_ACCEPTED}, (module, inputs), (step, *arguments), a jax.stages.Lowered, or a StepGraph"
        raise fail("", "step", type(source).__name__, rule)
    text = os.fsdecode(source)
    if isinstance(source, str) and (function := python_function(text)) is not None:
        return function
    if Path(text).suffix == ".py":
        raise fail(text, "", "", "must be FILE.py:FUNCTION, where FUNCTION returns a step or a module")
    if os.path.isdir(text):
        raise fail(text, "", "", "must be a file, not a folder")
    if not is_file(text):
        raise fail("", "step", text, f"no such file; must be {_ACCEPTED}", nearest(text, _beside(text)))
    return ProblemInput(STEP, text)


def step_of(source: StepSource) -> StepGraph:
    """The graph of a training step.

    Args:
        source: as :func:`resolve_step`, or :func:`~dse.sources.resolve.resolve` with :data:`STEP`, gives it.

    Raises:
        InputError: whatever is wrong with the step.
    """
    if isinstance(source, PythonFunction):
        return _of_function(source)
    if isinstance(source.content, StepGraph):
        return source.content
    if isinstance(source.content, tuple):
        return _of_objects(source.content, source.where)
    if _is_lowered(source.content):
        from dse.importer.jax.step import text_of_lowered

        return _graph_of_text(text_of_lowered(source.content), source.where)
    document = source.content is not None
    module = module_from_document(source.content, source.where) if document else read_module(source.where)
    return _flat(module, source.where)


def _flat(module: HloModule, where: str) -> StepGraph:
    """The step that ``module`` is; of several faults the first one in the order of the step is raised."""
    try:
        return step_graph(module, where)
    except UnfinishedStepError as error:
        step_factors(error.before, where)
        raise InputError(error.faults) from error


def _is_lowered(item: object) -> bool:
    """Whether ``item`` is what JAX lowered, without importing JAX: who has made one has done so."""
    return any(cls.__name__ == "Lowered" and cls.__module__.startswith("jax.") for cls in type(item).__mro__)


def with_variables(graph: StepGraph, path: str | Path) -> StepGraph:
    """``graph`` with the arguments trained that a text file lists by name, one per line, and no others.

    Raises:
        InputError: a name that no argument has (the nearest one is offered).
    """
    names = [argument.name for argument in graph.arguments]
    trained = []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if name := line.strip():
            if name not in names:
                raise fail(path, f"line {number}", name, "must be an argument of the step", nearest(name, names))
            trained.append(name)
    if not trained:
        raise fail(path, "", "", "must name at least one trained argument")
    return with_trained(graph, trained)


def _of_function(source: PythonFunction) -> StepGraph:
    """The step that a user's function returns: one of JAX, or a module of PyTorch."""

    def make() -> StepGraph:
        request = {"kind": "step", "path": str(source.path), "function": source.function}
        document, files = ask(request)
        for file in files:
            note(file, bytes_of(file))
        if isinstance(document, str):
            return _graph_of_text(document, source.where)
        return graph_of(document, StepGraph, source.where)

    return user_graph(source, {}, StepGraph, make)


def _of_objects(answer: tuple[Any, ...], where: str) -> StepGraph:
    """The step of a module with its inputs, or of a function of JAX with its arguments."""
    from dse.importer.torch.source import is_module_with_inputs

    if is_module_with_inputs(answer[:2]):
        from dse.importer.torch.step import Training, on_meta, step_of_module

        if len(answer) > 4:
            raise fail("", where, len(answer), "must be (module, inputs, targets, loss) at most")
        module, inputs, targets, loss = (*answer, None, None)[:4]
        return step_of_module(on_meta(module), inputs, Training(where, targets, loss), type(module).__name__)
    from dse.importer.jax.step import step_text

    return _graph_of_text(step_text(answer, Path(where), ""), where)


def _graph_of_text(text: str, where: str) -> StepGraph:
    """The step in HLO that the user has not seen: lines of it would tell nothing."""
    return replace(_flat(parse_hlo(text, where), where), places=())


def _beside(text: str) -> list[str]:
    """Files in the folder that ``text`` leads to, as it would name them."""
    folder = os.path.dirname(text)
    try:
        with os.scandir(folder or ".") as entries:
            return [os.path.join(folder, each.name) for _, each in zip(range(_MAX_LISTED), entries, strict=False)]
    except (OSError, ValueError):
        return []
