"""The tensors of one section of a trace on its tape: what is written in it, comes from another one, or is a weight."""

from dataclasses import dataclass, field

from dse.graph.tape import Tape, Tensor
from dse.graph.tensor_operators import weight
from dse.graph.trace import Step, Trace, Value
from dse.models.recipe import TrainingRecipe


@dataclass(frozen=True)
class Boundary:
    """What a section shares with the others.

    ``differentiable`` are the values of the trace that take a gradient; ``returned`` those of this section that are
    read elsewhere; ``known`` the parameters, trained or frozen, that an earlier section reads.
    """

    differentiable: frozenset[int]
    returned: tuple[int, ...]
    known: frozenset[int]


@dataclass
class SectionTensors:
    """Tensors of a section by the values of its trace, and the weights that it reads.

    Attributes:
        trace, boundary, recipe: of the section.
        written: the values that it writes.
        tied: its parameters that an earlier section reads too.
        frozen, frozen_tied: the same of parameters that are not trained.
    """

    trace: Trace
    boundary: Boundary
    recipe: TrainingRecipe
    written: frozenset[int]
    tied: int = 0
    frozen: int = 0
    frozen_tied: int = 0
    tensors: dict[int, Tensor] = field(default_factory=dict)
    _unread: dict[int, int] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tape = Tape(self.recipe.element_bytes, self.recipe.weight_gradients)

    def value(self, index: int) -> Value:
        """The value of the trace at ``index``."""
        return self.trace.values[index]

    def cut(self, index: int, tensor: Tensor) -> Tensor:
        """``tensor``, without gradient where the trace lets none through."""
        if not tensor.differentiable or index in self.boundary.differentiable:
            return tensor
        return self.tape.detached(tensor)

    def tensor(self, index: int) -> Tensor:
        """The tensor of a value: written in this layer, from another one, or a weight used as a tensor."""
        if index not in self.tensors:
            value = self.value(index)
            elements = max(1, value.elements)
            if value.role == "parameter":  # read again by every step
                name = self.name(short_name(value.name))
                return weight(self.tape, name, elements, self.weights(index))
            if value.role == "frozen":
                self.tensors[index] = self.tape.resident(self.name(short_name(value.name)), elements)
            elif index in self.boundary.differentiable:
                self.tensors[index] = self.tape.source(self.name("input"), elements)
            else:
                self.tensors[index] = self.tape.constant(self.name("constant"), elements)
        return self.tensors[index]

    def name(self, wanted: str) -> str:
        """``wanted``, or with a number where an operator has that name."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}_{count + 1}"

    def weights(self, *indices: int) -> int:
        """Parameters among values, each counted the first time that the layer reads it."""
        total = 0
        for index in indices:
            if self.value(index).role != "parameter":
                continue
            taken = self._taken(index)
            total += taken
            if self._base(index) in self.boundary.known:
                self.tied += taken
        return total

    def count_frozen(self, step: Step) -> None:
        """Count the frozen parameters that ``step`` reads, each the first time that the layer reads it."""
        for index in step.inputs:
            if self.value(index).role == "frozen":
                taken = self._taken(index)
                self.frozen += taken
                if self._base(index) in self.boundary.known:
                    self.frozen_tied += taken

    def _taken(self, index: int) -> int:
        """Elements of a weight that the layer reads now and has not read before; they are read from then on."""
        base, left = self._base(index), self.left(index)
        taken = min(left, self.value(index).elements)
        self._unread[base] = left - taken
        return taken

    def _base(self, index: int) -> int:
        """The weight that a view is of, or the weight itself."""
        base = self.value(index).base
        return index if base is None else base

    def left(self, index: int) -> int:
        """Parameters of a weight that this layer has not read yet."""
        base = self._base(index)
        return self._unread.get(base, self.value(base).elements)

    def named(self, step: Step) -> str:
        """The name of the module that holds the step's weight, else what the step does."""
        for index in step.inputs:
            value = self.value(index)
            if value.role == "parameter":
                return self.name(short_name(value.name))
        return self.name(str(step.attributes.get("function", step.attributes.get("name", step.kind))))

    def operands(self, step: Step) -> list[Tensor]:
        """The tensors that ``step`` reads."""
        return [self.tensor(index) for index in step.inputs]

    def elements(self, step: Step) -> int:
        """Elements of what the step writes (1 for a number)."""
        return max(1, sum(self.value(index).elements for index in step.outputs))


def short_name(name: str) -> str:
    """The last component of a module's name: ``query`` of ``encoder.layer.0.attention.query.weight``."""
    parts = [part for part in name.split(".")[:-1] if not part.isdigit()]
    return parts[-1] if parts else name
