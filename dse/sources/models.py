"""Any model that a command takes, described: ``dse models NAME``."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dse.sources.dataflow import dataflow_of, resolve_dataflow
from dse.sources.describe import ModelSummary, dataflow_summary, describe_layers, step_summary, trace_summary
from dse.sources.kinds import CatalogueNetwork, HyperparameterModel, Model, ProblemInput, PythonFunction
from dse.sources.resolve import python_function, resolve
from dse.sources.steps import step_of
from dse.sources.traces import inference_trace_of
from dse.sources.workloads import imported, workload
from hardware.inputs import InputError

if TYPE_CHECKING:
    from dse.problem import ProblemType


def described(
    text: str, sequence: int | None, problems: "Sequence[Callable[[], ProblemType[Any, Any]]]"
) -> ModelSummary | dict[str, Any]:
    """What the model that ``text`` names consists of: its layers (:func:`describe_layers`) where it can be trained.

    Args:
        text: a name or a file.
        sequence: tokens of a sample, for a model that lets one choose.
        problems: load the problems, whose own formats are known, too; only where no other source has the name.

    Raises:
        InputError: no model of this name (the nearest one is offered), or whatever is wrong with its file.
    """
    try:
        source = resolve(text)
    except InputError:
        if ":" in text and python_function(text) is None:
            return dataflow_summary(dataflow_of(resolve_dataflow(text), "forward", sequence=sequence))
        owners = {form: problem for load in reversed(problems) for problem in [load()] for form in problem.models}
        own = resolve(text, tuple(owners))
        assert isinstance(own, ProblemInput)
        found: ModelSummary = owners[own.format].described(own, sequence)
        return found
    assert not isinstance(source, ProblemInput)  # no format of a problem's own was handed over
    return _of_model(source, text, sequence)


def _of_model(source: Model, text: str, sequence: int | None) -> ModelSummary | dict[str, Any]:
    """As it trains; where it cannot be trained, as it infers; where a function is not a module, its step."""
    if isinstance(source, CatalogueNetwork):
        return trace_summary(inference_trace_of(source, sequence=sequence))
    if isinstance(source, HyperparameterModel):
        return describe_layers(workload(text, sequence))
    trace = partial(inference_trace_of, source, sequence=sequence)
    attempts: list[Callable[[], ModelSummary | dict[str, Any]]] = [
        lambda: describe_layers(imported(source, sequence)),
        lambda: step_summary(step_of(source)) if isinstance(source, PythonFunction) else trace_summary(trace()),
    ]
    faults = []
    for attempt in attempts:
        try:
            return attempt()
        except InputError as error:
            faults.append(error)
    raise faults[0]
