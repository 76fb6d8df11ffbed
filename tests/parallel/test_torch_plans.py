"""``plan_torch.py``: run by four processes it gives what one device gives, and holds as many bytes as the plan says."""

import json
import os
import subprocess
import sys
from math import prod
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
STEPS = ROOT / "tests" / "importer" / "torch" / "steps.py"
PLANS = [
    ("perceptron", "data=2,model=2", "exact", 4e-6),
    ("transformer", "data=2,model=2", "linkage", 2e-5),
    ("packed", "4", "exact", 1.2e-5),
    ("convolutions", "data=2,model=2", "exact", 5.5e-6),
    ("wide", "data=4", "exact", 0.06),
    ("wide", "data=2,model=2", "exact", 1, "0.weight=model,data", "2.weight=data,model"),
    ("wide", "data=4", "exact", 1, "0.weight=-,-", "exp_avg.0.weight=data,-", "exp_avg_sq.0.weight=data,-"),
]
"""Module, mesh, method, GiB, pins. The last three are FSDP's along one of one and of two axes, and ZeRO-1's."""

TIMEOUT_S = 900
"""After which the processes are ended."""


def planned(dse, folder, name, mesh, method, memory_gb, *pins):
    """A run directory, and its result."""
    asked = ("--mesh", mesh, "--method", method, "--memory-gb", memory_gb)
    pinned = [part for pin in pins for part in ("--pin", pin)]
    answer = dse("parallel", f"{STEPS}:{name}", *asked, *pinned, "--out", folder, "--quiet")
    assert answer.code == 0, answer.err
    return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
def test_plans_run_on_devices_give_what_one_device_gives(dse, tmp_path):
    from tests.parallel.torch_plans import plan_of

    folders = [tmp_path / str(number) for number in range(len(PLANS))]
    results = [planned(dse, folder, *each) for folder, each in zip(folders, PLANS, strict=True)]
    command = [sys.executable, "-m", "tests.parallel.torch_plans", *map(str, folders)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for case, folder, result, line in zip(PLANS, folders, results, lines, strict=True):
        assert line["worst"] < 1e-9, (case, line)
        assert line["moment_bytes"] == bytes_by(case[0], result, "exp_avg."), case
        assert line["parameter_bytes"] == bytes_by(case[0], result, "exp_avg.", ""), case
        by_module = {name.rpartition(".")[0]: how for name, how in plan_of(folder).SHARDED.items()}
        gathers = sum(2 if is_gathered_again else 1 for _, is_gathered_again in by_module.values())
        assert line["collectives"].get("_allgather_base_", 0) == gathers, case
        assert line["collectives"].get("_reduce_scatter_base_", 0) == len(by_module), case
        assert bool(by_module) == (case[0] == "wide"), case


def test_megatrons_plan_is_written_in_pytorchs_own_styles_and_sends_what_the_plan_says(dse, tmp_path):
    import torch
    from torch import distributed
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from tests.parallel.torch_plans import made, plan_of

    pins = ("--pin", "first.weight=model,-", "--pin", "second.weight=-,model")
    asked = ("--mesh", 8, "--method", "linkage", *pins, "--out", tmp_path / "run", "--quiet")
    answer = dse("parallel", f"{STEPS}:perceptron", *asked)
    assert answer.code == 0, answer.err
    text = (tmp_path / "run" / "plan_torch.py").read_text()
    assert "'first': ColwiseParallel(input_layouts=R(), output_layouts=S(1), use_local_output=False)," in text
    assert "'second': RowwiseParallel(input_layouts=S(1), output_layouts=R(), use_local_output=False)," in text
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    try:
        plan = plan_of(tmp_path / "run")
        on = plan.mesh("cpu")
        module, inputs = made("perceptron")
        module = plan.apply(module, on)
        optimizer = torch.optim.Adam(module.parameters())
        data = plan.distributed(inputs, on)
        with CommDebugMode() as counted:
            module(**data).full_tensor().backward()
            optimizer.step()
        counts = {str(kind).rpartition(".")[2]: count for kind, count in counted.get_comm_counts().items()}
    finally:
        distributed.destroy_process_group()
    assert counts == {each["kind"]: each["runs"] for each in result["metrics"]["collectives"]} == {"all_reduce": 1}


def bytes_by(name, result, *prefixes):
    """Of all parameters on a device, each split as the plan splits it or, under a prefix, what is kept of it: whichever
    is split further.
    """
    from tests.parallel.torch_plans import made

    sizes = dict(axis.split("=") for axis in result["solution"]["mesh"].split(","))
    splits = result["solution"]["arguments"]
    total = 0
    for parameter, tensor in made(name)[0].named_parameters():
        parts = [prod(int(sizes[axis]) for axes in splits[prefix + parameter] for axis in axes) for prefix in prefixes]
        total += tensor.numel() * 4 // max(parts)
    return total
