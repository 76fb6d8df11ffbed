"""``plan_torch.py`` of a pipeline: the split points of ``torch.distributed.pipelining``, by modules.

PyTorch splits a module before submodules. A plan cuts between any two operations, so each cut moves to the nearest
place, in computing, at which a submodule begins.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.report.units import time_text

_PROGRAM = '''"""A pipeline for {name}: {stages} stages, {devices} devices, {microbatches} microbatches.

    from plan_torch import DEVICES, MICROBATCHES, staged
    pipe = staged(model, microbatch)  # torch.distributed.pipelining.Pipe, with {stages} stages
    stage = pipe.build_stage(number, device)
    schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=loss)

Stages begin at module boundaries. {about}
"""

from torch.distributed.pipelining import SplitPoint, pipeline

SPLIT = {split}
"""The model is split before these modules."""

DEVICES = {counts}
"""Devices per stage; a stage's devices share its microbatches."""

MICROBATCHES = {microbatches}


def staged(model, *inputs, **named):
    """``model`` in stages, traced with a microbatch as its inputs."""
    spec = {{path: SplitPoint.BEGINNING for path in SPLIT}}
    return pipeline(model, mb_args=inputs, mb_kwargs=named, split_spec=spec)
'''


def torch_stages(name: str, labels: Sequence[str], problem: PipelineProblem, plan: PipelinePlan) -> str | None:
    """The text of ``plan_torch.py``; None where the module has too few submodules for so many stages.

    Args:
        name: of the model.
        labels: the module that each point belongs to; that of the loss is not a module.
        problem: what was cut.
        plan: its best plan.
    """
    begins = dict(module_beginnings(labels))
    work_s = np.concatenate(([0.0], np.cumsum(problem.profile.forward_s + problem.backward_s)))
    cuts: list[int] = []
    for cut in plan.cuts:
        behind = [place for place in begins if place > (cuts[-1] if cuts else 0)]
        if not behind:
            return None
        cuts.append(min(behind, key=lambda place: abs(float(work_s[place] - work_s[cut]))))
    moved = PipelinePlan(tuple(cuts), plan.device_cuts)
    if broken := faults(problem, moved):
        about = f"The plan cuts inside modules; cut here, {'; '.join(broken)}."
    else:
        seconds = time_text(length(problem, plan).length_s), time_text(length(problem, moved).length_s)
        about = f"The plan takes {seconds[0]} per batch, or {seconds[1]} if cut before these modules."
    edges = (0, *plan.device_cuts, problem.devices)
    return _PROGRAM.format(
        name=name,
        stages=problem.stages,
        devices=problem.devices,
        microbatches=problem.microbatches,
        about=about,
        split=repr(tuple(begins[cut] for cut in cuts)),
        counts=repr(tuple(int(each) for each in np.diff(edges))),
    )


def module_beginnings(labels: Sequence[str]) -> Iterator[tuple[int, str]]:
    """(point, the outermost module that begins there), for modules whose points are all behind it.

    ``labels`` are paths such as ``layers.3.up``; a module that has points before an earlier one is left out.
    """
    seen: set[str] = set()
    for place, label in enumerate(labels):
        parts = label.split(".")
        paths = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        new = [path for path in paths if path and path not in seen]
        seen.update(paths)
        if place and new:
            yield place, new[0]
