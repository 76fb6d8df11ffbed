"""Imported models as workloads: traced when their graph is asked for, and kept in the cache."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dse.graph.operator_graph import ModelGraph
from dse.graph.trace import Trace
from dse.importer.assemble import assemble, flops_per_sample
from dse.importer.cache import cached, keep, trace_digest
from dse.importer.canonical import canonical
from dse.models.hyperparameters import ExpertPlacement
from dse.models.recipe import TrainingRecipe
from hardware.inputs import InputError, fail

_WIDTHS = (1, 2, 4, 8)
"""Tensor-parallel widths that are tried."""


@dataclass(frozen=True)
class ImportedModel:
    """A PyTorch module, a transformers config or an ONNX file as a :class:`~dse.models.workload.Workload`.

    Attributes:
        path: the file (``.py``, ``.json`` or ``.onnx``), absolute.
        function: the function of a Python file that returns ``(module, example_inputs)``; empty for other files.
        sequence: tokens of a sample, where the source lets one choose.
    """

    path: str
    function: str = ""
    sequence: int | None = None
    _traces: dict[tuple[int, int], Trace] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "function": self.function, "sequence": self.sequence, "_traces": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)

    @property
    def name(self) -> str:
        """The function's name, or the file's (its folder's for a ``config.json``), with a sequence length if chosen."""
        path = Path(self.path)
        stem = path.parent.name if path.stem == "config" and path.parent.name else path.stem
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.function or stem).strip("-._") or "model"
        return plain if self.sequence is None else f"{plain}-{self.sequence}"

    @property
    def expert_placement(self) -> ExpertPlacement | None:
        """Nobody has published one for an imported model."""
        return None

    @property
    def tensor_parallel(self) -> tuple[int, ...]:
        """The widths 1, 2, 4 and 8 that its products, or the user's own function, can be sliced to."""
        from dse.sharding.slicing import widths

        if not self._sliced_by_user():
            return widths(self._trace(1, 1), _WIDTHS)
        return tuple(width for width in _WIDTHS if width == 1 or self._user_slices(width))

    def graph(self, microbatch: int, tensor_parallel: int, recipe: TrainingRecipe) -> ModelGraph:
        """The graph of one microbatch on one accelerator of a tensor-parallel group.

        Raises:
            InputError: a microbatch below 1, a width that the model cannot be sliced to, heads recorded one by one, or
                a source that cannot be traced.
        """
        from dse.sharding.slicing import slice_group

        if microbatch < 1:
            raise fail(self.name, "microbatch", microbatch, "must be at least 1")
        if recipe.attention == "per_head":
            raise fail(self.name, "attention", recipe.attention, "imported models have batched attention only")
        whole = self._trace(1, 1)
        if whole.parameters == 0:
            raise fail(self.path, self.function, "", "the model must have a trained parameter, but has none")
        flops = flops_per_sample(whole)
        if tensor_parallel > 1 and not self._sliced_by_user():
            if tensor_parallel not in self.tensor_parallel:
                offered = ", ".join(map(str, self.tensor_parallel))
                raise fail(self.name, "tensor_parallel", tensor_parallel, f"can be sliced to {offered}")
            trace = slice_group(self._trace(microbatch, 1), tensor_parallel)
        else:
            trace = self._trace(microbatch, tensor_parallel)
        return assemble(trace, tensor_parallel, recipe, flops)

    def document(self) -> dict[str, Any]:
        """The digests of the canonical trace of one sample, and of its slices where they are the user's own."""
        slices = self.tensor_parallel if self._sliced_by_user() else (1,)
        traces = {str(width): trace_digest(self._trace(1, width)) for width in slices}
        return {"name": self.name, "sequence": self.sequence, "traces": traces}

    def _sliced_by_user(self) -> bool:
        return bool(self.function) and "tensor_parallel" in self._parameters()

    def takes_sequence(self) -> bool:
        """Whether a sequence length can be chosen.

        Raises:
            InputError: the Python file cannot be read.
        """
        return not self.function or "sequence" in self._parameters()

    def _parameters(self) -> tuple[str, ...]:
        from dse.importer.torch.source import parameters_of

        return parameters_of(Path(self.path), self.function)

    def _user_slices(self, width: int) -> bool:
        try:
            self._trace(1, width)
        except InputError:
            return False
        return True

    def _trace(self, microbatch: int, width: int) -> Trace:
        """The canonical trace, from memory, from the cache, or made now."""
        key = microbatch, width
        if key not in self._traces:
            request = {
                "path": self.path,
                "function": self.function,
                "sequence": self.sequence,
                "microbatch": microbatch,
                "tensor_parallel": width,
            }
            found = cached(request)
            if found is None:
                trace, files = self._traced(microbatch, width)
                found = canonical(trace)
                keep(request, files, found)
            self._traces[key] = found
        return self._traces[key]

    def _traced(self, microbatch: int, width: int) -> tuple[Trace, tuple[Path, ...]]:
        path = Path(self.path)
        if self.function:
            from dse.importer.torch.source import trace_function

            sizes = {"microbatch": microbatch, "tensor_parallel": width}
            if self.sequence is not None:
                sizes["sequence"] = self.sequence
            return trace_function(path, self.function, self.name, sizes)
        if path.suffix == ".onnx":
            from dse.importer.onnx.file import read_onnx

            return read_onnx(path, microbatch), (path,)
        from dse.importer.torch.transformers_config import trace_config

        return trace_config(path, self.name, microbatch, self.sequence), (path,)
