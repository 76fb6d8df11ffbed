"""A trace while it is rewritten: steps are replaced, values stand for others, dead steps disappear at the end."""

from collections.abc import Sequence

from dse.graph.trace import Role, Step, Trace, Value


class Program:
    """The steps of ``trace``, open to change.

    A replaced step keeps its output, so that everything it made unnecessary is dead and is left out by
    :meth:`finished`.
    """

    def __init__(self, trace: Trace) -> None:
        self.name = trace.name
        self.microbatch = trace.microbatch
        self.values: list[Value] = list(trace.values)
        self.steps: list[Step] = list(trace.steps)
        self.outputs = trace.outputs
        self.needs_gradient = trace.needs_gradient
        self._stands_for: dict[int, int] = {}
        self._producer: dict[int, int] = dict(trace.producer)
        self._readers: dict[int, int] = {}
        for step in self.steps:
            for value in step.inputs:
                self._readers[value] = self._readers.get(value, 0) + 1

    def resolved(self, value: int) -> int:
        """The value that ``value`` stands for."""
        while value in self._stands_for:
            value = self._stands_for[value]
        return value

    def identify(self, value: int, other: int) -> None:
        """From now on ``value`` is ``other``."""
        other = self.resolved(other)
        self._readers[other] = self._readers.get(other, 0) + self._readers.get(value, 0) - 1
        self._stands_for[value] = other

    def fold(self, value: int, role: Role) -> None:
        """``value`` is no longer computed but a ``buffer`` or a ``constant``."""
        old = self.values[value]
        self.values[value] = Value(old.name, old.shape, old.dtype, role)
        self._producer.pop(value, None)

    def inputs(self, step: Step) -> tuple[int, ...]:
        """The values that ``step`` reads, resolved."""
        return tuple(self.resolved(value) for value in step.inputs)

    def step_of(self, value: int) -> Step | None:
        """The step that writes ``value``, if one does."""
        position = self._producer.get(self.resolved(value))
        return None if position is None else self.steps[position]

    def elementwise(self, value: int, function: str) -> tuple[int, ...] | None:
        """The operands of ``value`` where it is ``function`` of them."""
        step = self.step_of(value)
        if step is None or step.kind != "elementwise" or step.attributes["function"] != function:
            return None
        return self.inputs(step)

    def read_once(self, value: int) -> bool:
        """Whether one step alone reads ``value``, and the module does not return it."""
        value = self.resolved(value)
        return self._readers.get(value, 0) <= 1 and value not in map(self.resolved, self.outputs)

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of ``value``."""
        return self.values[self.resolved(value)].shape

    def depends_on_parameters(self, value: int) -> bool:
        """Whether the backward pass visits ``value``."""
        return self.resolved(value) in self.needs_gradient

    def finished(self) -> Trace:
        """The trace of the steps that the outputs need, its values renumbered; all parameters are retained."""
        outputs = tuple(dict.fromkeys(self.resolved(value) for value in self.outputs))
        wanted = set(outputs)
        alive: list[Step] = []
        for step in reversed(self.steps):
            if any(value in wanted and self._producer.get(value) is not None for value in step.outputs):
                inputs = self.inputs(step)
                wanted.update(inputs)
                alive.append(Step(step.kind, inputs, step.outputs, step.attributes, step.where))
        alive.reverse()
        for step in alive:
            wanted.update(step.outputs)
        wanted.update(value.base for value in [self.values[index] for index in wanted] if value.base is not None)
        wanted.update(
            index for index, value in enumerate(self.values) if value.role == "parameter" and value.base is None
        )
        return _renumbered(self, alive, outputs, sorted(wanted))


def _renumbered(program: Program, steps: Sequence[Step], outputs: Sequence[int], values: Sequence[int]) -> Trace:
    number = {old: new for new, old in enumerate(values)}

    def moved(value: Value) -> Value:
        base = None if value.base is None else number[value.base]
        return Value(value.name, value.shape, value.dtype, value.role, base)

    return Trace(
        name=program.name,
        microbatch=program.microbatch,
        values=tuple(moved(program.values[old]) for old in values),
        steps=tuple(
            Step(
                step.kind,
                tuple(number[value] for value in step.inputs),
                tuple(number[value] for value in step.outputs),
                step.attributes,
                step.where,
            )
            for step in steps
        ),
        outputs=tuple(number[value] for value in outputs),
    )
