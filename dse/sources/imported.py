"""Imported models as workloads: traced when their graph is first needed, and stored in the cache."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from dse.graph.operator_graph import ModelGraph
from dse.graph.trace import Trace
from dse.importer.assemble import assemble, flops_per_sample
from dse.importer.cache import trace_digest
from dse.models.hyperparameters import ExpertPlacement
from dse.models.recipe import TrainingRecipe
from dse.sources.kinds import PythonFunction, Traceable
from dse.sources.traces import traced
from hardware.inputs import InputError, fail

_WIDTHS = (1, 2, 4, 8)
"""Tensor-parallel widths that are tried."""


@dataclass(frozen=True)
class ImportedModel:
    """A model that is traced, as a :class:`~dse.models.workload.Workload`.

    Attributes:
        source: what is traced.
        sequence: tokens of a sample, where the source lets one choose.
    """

    source: Traceable
    sequence: int | None = None
    _traces: dict[tuple[int, int], Trace] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "sequence": self.sequence, "_traces": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)

    @property
    def name(self) -> str:
        """The source's name in plain characters, with a sequence length if chosen."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.source.name).strip("-._") or "model"
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
            raise fail(self.name, "attention", recipe.attention, "must be batched for an imported model")
        flops = flops_per_sample(self.trace(1))
        if tensor_parallel > 1 and not self._sliced_by_user():
            if tensor_parallel not in self.tensor_parallel:
                offered = ", ".join(map(str, self.tensor_parallel))
                raise fail(self.name, "tensor_parallel", tensor_parallel, f"must be one of {offered}")
            trace = slice_group(self._trace(microbatch, 1), tensor_parallel)
        else:
            trace = self._trace(microbatch, tensor_parallel)
        return assemble(replace(trace, name=self.name), tensor_parallel, recipe, flops)

    def trace(self, microbatch: int) -> Trace:
        """The canonical trace of the forward pass of training.

        Raises:
            InputError: a microbatch below 1, a model without a trained parameter, or a source that cannot be traced.
        """
        if microbatch < 1:
            raise fail(self.name, "microbatch", microbatch, "must be at least 1")
        trace = self._trace(microbatch, 1)
        if trace.parameters == 0:
            raise fail(self.source.where, "", "", "the model must have a trained parameter, but has none")
        return trace

    def document(self) -> dict[str, Any]:
        """The digests of the canonical trace of one sample, and of its slices where they are the user's own."""
        slices = self.tensor_parallel if self._sliced_by_user() else (1,)
        traces = {str(width): trace_digest(self._trace(1, width)) for width in slices}
        return {"name": self.name, "sequence": self.sequence, "traces": traces}

    def _sliced_by_user(self) -> bool:
        return isinstance(self.source, PythonFunction) and "tensor_parallel" in self.source.parameters

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
            self._traces[key] = traced(self.source, microbatch, width, self.sequence)
        return self._traces[key]
