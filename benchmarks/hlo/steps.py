"""Training steps in plain JAX: whole steps with Adam, layers unrolled, parameters as nested dicts, no weights.

Each of :data:`STEPS` gives a step and the shapes of its arguments ``(parameters, moments, batch)``. ``python -m
benchmarks.hlo.steps FOLDER [NAME …]`` lowers them to HLO text, before optimisation (``NAME.hlo``) and after it
(``NAME.opt.hlo``; by XLA's CPU compiler), and to StableHLO (``NAME.mlir``). JAX is needed for that alone.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax

from benchmarks.hlo.networks import bert, dlrm, t5, vgg
from benchmarks.hlo.small_steps import convolutions, llama, perceptron, rare

STEPS: dict[str, Callable[[], Any]] = {
    "vgg19": vgg,
    "t5-6": t5,
    # The paper's T5-base: dse/reproduce/automap/models.py says how its sizes follow from what is printed.
    "t5-base": partial(t5, inner=1024, words=37888, cross_table=True),
    "t5-3b": partial(t5, layers=24, hidden=1024, inner=16384, heads=32, head=128, batch=8),
    "t5-11b": partial(t5, layers=24, hidden=1024, inner=65536, heads=128, head=128, batch=8),
    "bert-large": bert,
    "bert-48": partial(bert, layers=48),
    "dlrm": dlrm,
    "convolutions": convolutions,
    "perceptron": perceptron,
    "llama-block": llama,
    "rare": rare,
    "vgg-tiny": partial(vgg, batch=4, size=8, widths=(8, 0, 16, 0), hidden=32),
    "t5-tiny": partial(t5, layers=1, hidden=16, inner=32, heads=4, head=4, batch=4, sequence=8, words=64),
    "bert-tiny": partial(bert, layers=2, hidden=16, inner=32, heads=4, batch=4, sequence=8, words=64),
    "dlrm-tiny": partial(dlrm, batch=16, tables=2, rows=32, width=8),
}


def lowered(name: str) -> Any:
    """The step of :data:`STEPS`, lowered."""
    step, arguments = STEPS[name]()
    return jax.jit(step).lower(*arguments)


def write(name: str, folder: Path, *, optimised: bool) -> None:
    """The dumps of one step."""
    step = lowered(name)
    (folder / f"{name}.hlo").write_text(step.compiler_ir("hlo").get_hlo_module().to_string())
    (folder / f"{name}.mlir").write_text(step.as_text("stablehlo", debug_info=True))
    if optimised:
        (folder / f"{name}.opt.hlo").write_text(step.compile().as_text())


if __name__ == "__main__":
    for each in sys.argv[2:] or STEPS:
        write(each, Path(sys.argv[1]), optimised=True)
        print(each, flush=True)
