"""Canonical traces of sources, made once and then read from the user's cache."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dse.graph.trace import Trace
from dse.importer.cache import cached, keep
from dse.importer.canonical import canonical
from dse.importer.torch.module import Mode, trace_module
from dse.importer.user_function import graph_of
from dse.importer.user_process import ask
from dse.sources.built_in import inference_trace
from dse.sources.kinds import (
    CatalogueNetwork,
    ForwardTrace,
    HyperparameterModel,
    Model,
    OnnxFile,
    PythonFunction,
    TorchModule,
    Traceable,
    TransformersConfig,
)
from dse.sources.user_graphs import user_graph
from hardware.input_files import bytes_of, note
from hardware.inputs import fail

Made = tuple[Trace, tuple[Path, ...]]
"""A trace and the files that it was made of."""


def inference_trace_of(source: Model, microbatch: int = 1, sequence: int | None = None) -> Trace:
    """The canonical trace of the inference forward pass of ``source``.

    Args:
        source: a model.
        microbatch: samples of one input.
        sequence: tokens of a sample, for a source that lets one choose.

    Raises:
        InputError: a size that the source does not take, or a source that cannot be traced.
    """
    if microbatch < 1:
        raise fail(source.where, "microbatch", microbatch, "must be at least 1")
    if not isinstance(source, HyperparameterModel | CatalogueNetwork):
        return traced(source, microbatch, sequence=sequence, mode="inference")
    if sequence is not None:
        raise own_sequence(source, sequence)
    if isinstance(source, HyperparameterModel):
        return canonical(inference_trace(source.hyperparameters, microbatch))
    if microbatch != 1:
        raise fail(source.where, "microbatch", microbatch, "must be 1 for catalogue networks")
    return source.entry.trace()


def traced(
    source: Traceable,
    microbatch: int,
    tensor_parallel: int = 1,
    sequence: int | None = None,
    mode: Mode = "training",
) -> Trace:
    """The canonical trace of ``source``, from the cache, or made now and stored there.

    Args:
        source: what is traced.
        microbatch: samples of one input.
        tensor_parallel: the width that a Python function is called with, if it takes one.
        sequence: tokens of a sample, for a source that lets one choose.
        mode: what the forward pass is for.

    Raises:
        InputError: a size that the source does not take, or a source that cannot be traced.
    """
    if sequence is not None and not takes_sequence(source):
        raise own_sequence(source, sequence)
    if isinstance(source, ForwardTrace):
        return _stated(source, microbatch)
    if isinstance(source, TorchModule):
        module, inputs = source.module, source.example_inputs
        return canonical(trace_module(module, inputs, source.name, microbatch, mode=mode))
    request = {"source": source.where, "microbatch": microbatch, "sequence": sequence, "mode": mode}
    if isinstance(source, OnnxFile):
        return _cached_or_made(request, lambda: _onnx(source, microbatch))
    if isinstance(source, TransformersConfig):
        return _cached_or_made(request, lambda: _config(source, microbatch, sequence, mode))
    sizes = {"microbatch": microbatch, "tensor_parallel": tensor_parallel}
    if sequence is not None:
        sizes["sequence"] = sequence
    request |= sizes
    return user_graph(
        source,
        {**sizes, "mode": mode},
        Trace,
        lambda: _cached_or_made(request, lambda: _function(source, sizes, mode)),
    )


def takes_sequence(source: Model) -> bool:
    """Whether a sequence length can be chosen.

    Raises:
        InputError: a Python file that cannot be read.
    """
    if isinstance(source, PythonFunction):
        return "sequence" in source.parameters
    return isinstance(source, TransformersConfig)


def own_sequence(source: Model, sequence: int) -> Exception:
    """The error that ``source`` takes no sequence length."""
    return fail(source.where, "sequence", sequence, "must not be given, because the model has a fixed sequence length")


def _stated(source: ForwardTrace, microbatch: int) -> Trace:
    if microbatch != source.trace.microbatch:
        rule = f"must not be given, because the trace has microbatch {source.trace.microbatch}"
        raise fail(source.where, "microbatch", microbatch, rule)
    return canonical(source.trace)


def _onnx(source: OnnxFile, microbatch: int) -> Made:
    from dse.importer.onnx.file import read_onnx_files

    trace, files = read_onnx_files(source.path, microbatch)
    return replace(trace, name=source.name), (source.path, *files)


def _config(source: TransformersConfig, microbatch: int, sequence: int | None, mode: Mode) -> Made:
    from dse.importer.torch.transformers_config import trace_config

    return trace_config(source.path, source.name, microbatch, sequence, mode), (source.path,)


def _function(source: PythonFunction, sizes: dict[str, int], mode: Mode) -> Made:
    asked = {"kind": "trace", "name": source.name, "sizes": sizes, "mode": mode}
    document, files = ask({**asked, "path": str(source.path), "function": source.function})
    return graph_of(document, Trace, source.where), files


def _cached_or_made(request: dict[str, Any], make: Callable[[], Made]) -> Trace:
    """The canonical trace from the user's cache, or made and stored there; its files are noted either way."""
    trace = cached(request)
    if trace is None:
        made, files = make()
        trace = canonical(made)
        keep(request, files, trace)
        for file in files:
            note(file, bytes_of(file))
    return trace
