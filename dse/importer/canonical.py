"""The canonical form of a trace: what is priced and nothing else, written-out composites as one step each.

Casts are gone (every floating value counts at the recipe's element width), views that change nothing too, and whatever
depends on neither an input nor a weight is not a step: a machine makes it once, not in every iteration. What is made of
frozen weights alone is made in every iteration, as PyTorch does: the weights are in memory either way.
"""

from dse.graph.trace import Step, Trace
from dse.importer.composites import RULES
from dse.importer.program import Program


def canonical(trace: Trace) -> Trace:
    """``trace`` in canonical form. Idempotent."""
    program = Program(trace)
    for step in trace.steps:
        if _changes_nothing(program, step):
            program.identify(step.outputs[0], step.inputs[0])
    _fold_constants(program)
    for position in range(len(program.steps)):
        for rule in RULES:
            rewritten = rule(program, program.steps[position])
            if rewritten is not None:
                program.steps[position] = rewritten
    return program.finished()


def _changes_nothing(program: Program, step: Step) -> bool:
    if step.kind == "cast":
        return True
    if len(step.inputs) != 1 or len(step.outputs) != 1:
        return False
    if program.shape(step.inputs[0]) != program.values[step.outputs[0]].shape:
        return False
    if step.kind in ("reshape", "expand"):
        return True
    if step.kind == "permute":
        axes = step.attributes["axes"]
        return isinstance(axes, tuple) and axes == tuple(sorted(axes))
    function, operand = step.attributes.get("function"), step.attributes.get("operand")
    return (function, operand) in (("scale", 1.0), ("add_constant", 0.0))


def _fold_constants(program: Program) -> None:
    """Values made of buffers and constants alone become buffers, or constants where they outgrow these buffers."""
    fixed = {index for index, value in enumerate(program.values) if value.role in ("buffer", "constant")}
    for step in program.steps:
        read = program.inputs(step)
        if fixed.issuperset(read) and step.kind not in ("all_reduce", "copy_to_group"):
            buffers = {index for index in read if program.values[index].role == "buffer"}
            stored = sum(program.values[index].elements for index in buffers)
            made = sum(program.values[index].elements for index in step.outputs)
            for value in step.outputs:
                if program.resolved(value) == value:
                    program.fold(value, "buffer" if buffers and made <= stored else "constant")
                fixed.add(value)
