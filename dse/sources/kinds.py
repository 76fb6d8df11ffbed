"""What a source can be: one frozen class for each kind, with the name that results give it and how errors name it.

:func:`dse.sources.resolve.resolve` makes them of what a user gives; nothing is traced yet.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.graph.trace import Trace
from dse.models.hyperparameters import Hyperparameters
from dse.sources import catalogue

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class HyperparameterModel:
    """A transformer by its hyper-parameters: a built-in model, or a user's file or object.

    Attributes:
        hyperparameters: of the model.
        where: the name or file that errors name.
    """

    hyperparameters: Hyperparameters
    where: str

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.hyperparameters.name


@dataclass(frozen=True)
class CatalogueNetwork:
    """A network of :mod:`dse.sources.catalogue`."""

    name: str

    @property
    def where(self) -> str:
        """The name."""
        return self.name

    @property
    def entry(self) -> catalogue.Entry:
        """The network."""
        return catalogue.entry(self.name)


@dataclass(frozen=True)
class PythonFunction:
    """``FILE.py:FUNCTION``: a function that returns a PyTorch module and example inputs, or a step of JAX.

    Attributes:
        path: the file, absolute.
        function: its name.
    """

    path: Path
    function: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function

    @property
    def where(self) -> str:
        """``FILE.py:FUNCTION``."""
        return f"{self.path}:{self.function}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The sizes that the function asks for.

        Raises:
            InputError: the file cannot be read, or is not Python.
        """
        from dse.importer.user_file import parameters_of

        return parameters_of(self.path, self.function)


@dataclass(frozen=True)
class TransformersConfig:
    """A ``config.json`` of Hugging Face transformers; ``path`` is absolute."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name, or its folder's where the file is called ``config``."""
        return self.path.parent.name if self.path.stem == "config" and self.path.parent.name else self.path.stem

    @property
    def where(self) -> str:
        """The file."""
        return str(self.path)


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file; ``path`` is absolute."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.stem

    @property
    def where(self) -> str:
        """The file."""
        return str(self.path)


@dataclass(frozen=True, eq=False)
class TorchModule:
    """A PyTorch module and example inputs, as objects.

    Attributes:
        module: a copy of the user's on the meta device, without its weights.
        example_inputs: as :func:`dse.importer.torch.module.trace_module` takes them.
        name: the module's class.
    """

    module: "torch.nn.Module"
    example_inputs: Any
    name: str

    @property
    def where(self) -> str:
        """The class."""
        return self.name


@dataclass(frozen=True)
class ForwardTrace:
    """A trace that is there already: of its own microbatch, and of inference or training as it was made."""

    trace: Trace

    @property
    def name(self) -> str:
        """The trace's name."""
        return self.trace.name

    @property
    def where(self) -> str:
        """The trace's name."""
        return self.trace.name


@dataclass(frozen=True)
class ProblemFormat:
    """A format that one problem reads in addition to models.

    Attributes:
        description: for the list of what a source can be: "a .json of schema dse.graph/1".
        schema: of its JSON or YAML documents.
        suffixes: of its files, with the dot, where they are not documents.
        keys: of its documents without a schema; one that has any of them is of this format.
        names: of what is there by name.
        object_type: of its objects.
    """

    description: str
    schema: str = ""
    suffixes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    object_type: type | None = None


@dataclass(frozen=True, eq=False)
class ProblemInput:
    """An input in a format, or under a name, that only the calling problem knows.

    Attributes:
        format: of which :class:`ProblemFormat`.
        where: the name or file that errors name.
        content: the parsed document, or the object; None for a name or a file that is not a document.
    """

    format: ProblemFormat
    where: str
    content: Any = None


Traceable = PythonFunction | TransformersConfig | OnnxFile | TorchModule | ForwardTrace
"""What is traced to be a graph."""

Model = HyperparameterModel | CatalogueNetwork | Traceable
"""What :func:`dse.sources.traces.inference_trace_of` gives the trace of."""

Source = Model | ProblemInput

StepSource = ProblemInput | PythonFunction
"""What :func:`dse.sources.steps.step_of` gives the graph of; an input is in the format of training steps."""
