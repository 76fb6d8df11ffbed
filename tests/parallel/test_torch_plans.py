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
    ("perceptron", "4", "exact", 4e-6),
    ("perceptron", "data=2,model=2", "exact", 4e-6),
    ("transformer", "4", "linkage", 2e-5),
    ("transformer", "data=2,model=2", "exact", 2e-5),
    ("wide", "data=4", "exact", 0.06),
    ("packed", "4", "exact", 1.2e-5),
    ("convolutions", "data=2,model=2", "exact", 6e-6),
]


def planned(dse, folder, name, mesh, method, memory_gb):
    """A run directory, and its result."""
    asked = ("--mesh", mesh, "--method", method, "--memory-gb", memory_gb)
    answer = dse("parallel", f"{STEPS}:{name}", *asked, "--out", folder, "--quiet")
    assert answer.code == 0, answer.err
    return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
def test_plans_run_on_devices_give_what_one_device_gives(dse, tmp_path):
    from tests.parallel.torch_plans import plan_of

    results = [planned(dse, tmp_path / str(number), *each) for number, each in enumerate(PLANS)]
    command = [sys.executable, "-m", "tests.parallel.torch_plans", *(str(tmp_path / str(n)) for n in range(len(PLANS)))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for case, result, line in zip(PLANS, results, lines, strict=True):
        assert line["worst"] < 1e-9, (case, line)
        if case[0] == "wide":  # as ZeRO and FSDP have it
            gathered = len(plan_of(tmp_path / str(PLANS.index(case))).USED)
            assert line["collectives"]["reduce_scatter_tensor"] == gathered > 0
            assert line["collectives"]["all_gather_into_tensor"] >= gathered
        else:
            assert line["parameter_bytes"] == parameter_bytes(case[0], result), case


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


def parameter_bytes(name, result):
    """Of all parameters on a device, by the plan."""
    from tests.importer.torch.traced import torch_step

    graph = torch_step(STEPS, name)
    sizes = dict(axis.split("=") for axis in result["solution"]["mesh"].split(","))
    total = 0
    for argument in graph.trainable:
        split = result["solution"]["arguments"][argument.name]
        total += graph.values[argument.value].size_bytes // prod(int(sizes[axis]) for axes in split for axis in axes)
    return total
