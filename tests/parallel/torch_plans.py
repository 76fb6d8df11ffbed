"""Plans run by PyTorch: ``python -m tests.parallel.torch_plans FOLDER …``, run directories of plans on four devices.

Four processes on this machine, joined by gloo, train each module by its ``plan_torch.py`` beside the module itself in
double precision. The first one prints a line of JSON for each plan: how far losses and new parameters differ from those
of one device, relative to the largest, the bytes of parameters and of Adam's first moments on a rank, and the
collectives of one step. The processes are forked, so that PyTorch is imported once.
"""

import importlib.util
import inspect
import json
import sys
import tempfile
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

from tests.importer.torch import steps

DEVICES = 4
STEPS = 2
"""Of which the second one shows new parameters in its loss."""

TIMEOUT = timedelta(minutes=5)
"""After which a process that waits for others fails."""

SMALL = {"wide": (8, 16)}
"""Arguments of modules that are trained smaller than they are planned: layouts are the same."""


def plan_of(folder):
    """The plan's module."""
    spec = importlib.util.spec_from_file_location("plan_torch", Path(folder) / "plan_torch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(name):
    """The module with its inputs by name and its targets, the same on every rank."""
    torch.manual_seed(0)
    module, inputs, *targets = getattr(steps, name)(*SMALL.get(name, ()))
    if not isinstance(inputs, dict):
        inputs = dict(zip(inspect.signature(module.forward).parameters, inputs, strict=False))
    wide = {key: each.double() if each.is_floating_point() else each for key, each in inputs.items()}
    return module.double().train(), wide, *targets


def trained(module, inputs, targets, optimizer):
    """The loss of one step."""
    optimizer.zero_grad()
    outputs = module(**inputs)
    loss = steps.loss(whole(outputs), whole(targets[0])) if targets else whole(outputs)
    loss.backward()
    optimizer.step()
    return loss.item()


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def measured(folder, meshes):
    """One plan beside one device: steps of SGD, which unlike Adam shows every factor of a gradient."""
    name = json.loads((Path(folder) / "result.json").read_text())["problem"]["name"]
    alone, inputs, *targets = made(name)
    expected = [trained(alone, inputs, targets, torch.optim.SGD(alone.parameters(), 0.1)) for _ in range(STEPS)]
    plan = plan_of(folder)
    on = meshes.setdefault((plan.AXES, plan.SIZES), plan.mesh("cpu"))  # one alone: PyTorch's caches hand it on
    spread = plan.apply(made(name)[0], on)
    data = plan.distributed(inputs, on)
    losses = []
    counted = CommDebugMode()
    for step in range(STEPS):
        with counted if step == STEPS - 1 else nullcontext():
            losses.append(trained(spread, data, targets, torch.optim.SGD(spread.parameters(), 0.1)))
    worst = max(abs(one - other) / abs(one) for one, other in zip(expected, losses, strict=True))
    for (key, one), (other_key, other) in zip(alone.state_dict().items(), spread.state_dict().items(), strict=True):
        assert key == other_key
        difference = (one - whole(other)).abs().max() / one.abs().max().clamp(min=1e-3)
        worst = max(worst, float(difference))
    optimizer = torch.optim.Adam(spread.parameters(), fused=True)  # all of a parameter's moments in one operator
    optimizer.step()
    moments = sum(optimizer.state[each]["exp_avg"].to_local().numel() * 4 for each in spread.parameters())
    counts = {str(kind).rpartition(".")[2]: count for kind, count in counted.get_comm_counts().items()}
    size = sum(each.to_local().numel() * 4 for each in spread.parameters())
    return {"worst": worst, "parameter_bytes": size, "moment_bytes": moments, "collectives": counts}


def work(rank, meeting, folders):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{meeting}", TIMEOUT, DEVICES, rank)
    meshes = {}
    for folder in folders:
        found = measured(folder, meshes)
        if rank == 0:
            print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(work, (f"{folder}/meeting", sys.argv[1:]), DEVICES, start_method="fork")
