"""Lowering a step that a user's function returns, for shapes alone, to HLO text."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.importer.libraries import library
from dse.importer.user_code import guarded
from hardware.inputs import InputError, fail

if TYPE_CHECKING:
    from jax.stages import Lowered

RULE = (
    "the function must return (step, *arguments) for JAX, where arguments are pytrees of arrays or shapes; a "
    "jax.stages.Lowered; or (module, example inputs) for PyTorch"
)


def step_text(answer: object, path: Path, name: str) -> str:
    """The HLO text of what function ``name`` of a file returned.

    Args:
        answer: ``(step, *arguments)``, where ``step`` is a function, jitted or not, and each argument a tree of arrays,
            ``jax.ShapeDtypeStruct`` or numbers; or a step that is lowered already.
        path: the user's file.
        name: of the function.

    Raises:
        InputError: JAX is missing, an answer of another form, or a step that cannot be traced or lowered, at the
            user's line.
    """
    is_step = isinstance(answer, tuple) and len(answer) > 1 and callable(answer[0])
    if not is_step and type(answer).__name__ != "Lowered":
        raise _wrong_answer(answer, path, name)
    library("jax", path)
    from jax.stages import Lowered

    if isinstance(answer, Lowered):
        return text_of_lowered(answer)
    if not isinstance(answer, tuple):
        raise _wrong_answer(answer, path, name)
    step, *arguments = answer
    lowered: Lowered = guarded(str(path), lambda: _lowered(step, arguments))
    return text_of_lowered(lowered)


def text_of_lowered(lowered: "Lowered") -> str:
    """The HLO text of a lowered step, before optimisation, with the names of its arguments."""
    computation: Any = lowered.compiler_ir("hlo")
    text: str = computation.get_hlo_module().to_string()
    return text


def _lowered(step: Callable[..., Any], arguments: list[Any]) -> "Lowered":
    """For CPUs, whatever devices there are: a step before optimisation is the same for all."""
    import jax

    jitted = step if hasattr(step, "trace") else jax.jit(step)
    lowered: Lowered = jitted.trace(*arguments).lower(lowering_platforms=("cpu",))
    return lowered


def _wrong_answer(answer: object, path: Path, name: str) -> InputError:
    shown = type(answer).__name__
    if isinstance(answer, tuple):
        shown = f"({', '.join(type(item).__name__ for item in answer)})"
    return fail(path, name, shown, RULE)
