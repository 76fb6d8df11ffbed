"""Changed inputs of every format: an answer or lines of errors, never a traceback, and nothing half-written.

The changes are the same each time. ``DSE_FUZZ_SEED=TEXT`` draws others, ``DSE_FUZZ_TIMES=N`` N times as many.
"""

import json
import os
import random
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest
import yaml

from tests.fabric.documents import FEED_FORWARD, fabric_document
from tests.fuzz import examples
from tests.fuzz.mutations import changed_document, changed_text, changed_yaml
from tests.parallel.problems import MLP

SEED, TIMES = os.environ.get("DSE_FUZZ_SEED", ""), int(os.environ.get("DSE_FUZZ_TIMES", "1"))
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
SMALL_JOB = ("--accelerators", "4", "--global-batch", "8", "--microbatch", "1,2", "--workers", "0", "--quiet")


def spec(folder, name):
    return yaml.safe_load(resources.files("hardware").joinpath("specs", folder, f"{name}.yaml").read_text())


def stack_document():
    return yaml.safe_load(resources.files("dse.plan").joinpath("stacks", "megatron-2022.yaml").read_text())


@dataclass(frozen=True)
class Format:
    """A valid document, the file that is changed, and the command that reads it; ``beside`` are its other inputs."""

    file: str
    document: object
    command: tuple[str, ...]
    beside: tuple[tuple[str, object], ...] = ()
    inputs: int = 40
    out: bool = True


PARTITION = ("partition", "graph.json", "--workers", "0", "--quiet", "--samples", "5", "--method", "greedy")
TRAIN = ("predict", "--global-batch", "16", "--quiet")
SMALL_MESH = ("--mesh", "2", "--quiet")
PLACE_ON_FABRIC = ("fabric", "place", "dataflow.json", "--chains", "1", "--moves", "50", "--workers", "0", "--quiet")
FORMATS = {
    "dataflow graph": Format(
        "dataflow.json",
        FEED_FORWARD,
        (*PLACE_ON_FABRIC, "--fabric", "fabric.json"),
        (("fabric.json", fabric_document()),),
    ),
    "fabric": Format(
        "fabric.yaml",
        fabric_document(),
        (*PLACE_ON_FABRIC, "--fabric", "fabric.yaml"),
        (("dataflow.json", FEED_FORWARD),),
    ),
    "placement": Format("layers.json", examples.PLACEMENT, ("place", "layers.json", "--quiet")),
    "placement in YAML": Format("layers.yaml", examples.PLACEMENT, ("place", "layers.yaml", "--quiet")),
    "schedule": Format("layer.json", examples.SCHEDULE, ("schedule", "layer.json", "--quiet")),
    "graph": Format("graph.json", examples.GRAPH, (*PARTITION, "--chips", "3")),
    "package": Format(
        "package.yaml",
        spec("packages", "mcm-4"),
        (*PARTITION, "--package", "package.yaml"),
        (("graph.json", examples.GRAPH),),
    ),
    "wafer case": Format(
        "case.kgraph",
        examples.KGRAPH,
        ("wafer", "case.kgraph", "--workers", "0", "--moves", "10", "--quiet"),
        inputs=20,
    ),
    "kernels": Format(
        "kernels.yaml",
        examples.KERNELS,
        ("wafer", "case.kgraph", "--kernels", "kernels.yaml", "--workers", "0", "--moves", "10", "--quiet"),
        (("case.kgraph", examples.KGRAPH),),
        inputs=20,
    ),
    "model": Format("model.yaml", examples.MODEL, ("models", "model.yaml"), out=False),
    "accelerator": Format(
        "chip.yaml",
        spec("chips", "v100"),
        ("codesign", "model.json", "--fixed", "chip.yaml", *SMALL_JOB),
        (("model.json", examples.MODEL),),
        inputs=20,
    ),
    "network": Format(
        "net.yaml",
        examples.NETWORK,
        ("codesign", "model.json", "--fixed", "tpuv4", "--network", "net.yaml", *SMALL_JOB),
        (("model.json", examples.MODEL),),
        inputs=20,
    ),
    "transformer": Format("model.yaml", examples.TRANSFORMER, (*TRAIN, "model.yaml")),
    "config": Format("config.json", examples.CONFIG, (*TRAIN, "config.json"), inputs=25),
    "plan": Format("plan.yaml", examples.PLAN, (*TRAIN, "llama3-8b", "--plan", "plan.yaml"), inputs=25),
    "chip": Format("chip.yaml", spec("chips", "h100-sxm"), (*TRAIN, "llama3-8b", "--on", "chip.yaml"), inputs=20),
    "stack": Format("stack.yaml", stack_document(), (*TRAIN, "llama3-8b", "--stack", "stack.yaml"), inputs=20),
    "HLO text": Format("step.hlo", MLP, ("parallel", "step.hlo", *SMALL_MESH)),
    "HLO in JSON": Format("step.json", examples.HLO_JSON, ("parallel", "step.json", *SMALL_MESH)),
    "StableHLO": Format("step.mlir", examples.STABLEHLO, ("parallel", "step.mlir", *SMALL_MESH)),
    "loops in HLO": Format("loop.hlo", examples.LOOP, ("partition", "loop.hlo", *PARTITION[2:], "--package", "mcm-4")),
}


def write(path, document):
    if isinstance(document, bytes):
        path.write_bytes(document)
    elif isinstance(document, str):
        path.write_text(document)
    elif path.suffix == ".yaml":
        path.write_text(yaml.safe_dump(document, sort_keys=False))
    else:
        path.write_text(json.dumps(document))


def draws_of(name, inputs):
    """The numbers of changed inputs, and for each what it is drawn from."""
    return ((number, random.Random(f"{name} {number}{SEED}")) for number in range(inputs * TIMES))


def changed(draws, file, document):
    """The content of a changed file."""
    if isinstance(document, str):
        return changed_text(draws, document.encode())
    draw = draws.random()
    if Path(file).suffix == ".yaml":
        if draw < 0.4:
            return changed_yaml(draws, yaml.safe_dump(document, sort_keys=False)).encode()
        # JSON is YAML: safe_dump would refuse what some of these texts hold
        content = json.dumps(changed_document(draws, document), indent=1)
    else:
        content = json.dumps(changed_document(draws, document))
    return changed_text(draws, content.encode()) if draw > 0.8 else content.encode()


def require_plain_refusal(answer, content, out):
    """The promise to every input; ``content`` is shown where it is broken."""
    shown = f"\n{content[:3_000]!r}\n{answer.err[-3_000:]}"
    assert answer.code in (0, 1, 2, 3), shown
    assert "internal error" not in answer.err, shown
    assert "Traceback" not in answer.err + answer.out, shown
    assert not CONTROL_CHARACTERS.search(answer.err), shown
    if answer.code == 2:
        lines = answer.err.splitlines()
        assert lines, shown
        assert all(line.startswith("error: ") and len(line) < 2_000 for line in lines), shown
        assert len(lines) < 100, shown
        assert answer.out == "", shown
        assert not out.exists(), shown


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FORMATS)
def test_a_changed_input_is_answered_or_refused(name, dse, folder):
    case = FORMATS[name]
    for file, document in (*case.beside, (case.file, case.document)):
        write(folder / file, document)
    valid = dse(*case.command)
    assert valid.code == 0, valid.err
    codes = []
    for number, draws in draws_of(name, case.inputs):
        content = changed(draws, case.file, case.document)
        (folder / case.file).write_bytes(content)
        out = folder / f"out{number}"
        answer = dse(*case.command, *(("--out", out) if case.out else ()))
        require_plain_refusal(answer, content, out)
        codes.append(answer.code)
    assert codes.count(2) > len(codes) // 4, "the changes do not reach the rules"


def test_a_changed_result_is_refused_or_found_at_fault(dse, folder):
    write(folder / "layers.json", examples.PLACEMENT)
    assert dse("place", "layers.json", "--quiet", "--out", "run").code == 0
    result = json.loads((folder / "run" / "result.json").read_text())
    for _, draws in draws_of("result", 40):
        content = changed(draws, "result.json", result)
        (folder / "run" / "result.json").write_bytes(content)
        require_plain_refusal(dse("check", "run/result.json", "layers.json"), content, folder / "none")


def test_a_changed_config_is_answered_or_refused(dse, folder):
    pytest.importorskip("transformers")
    for _, draws in draws_of("config", 12):
        content = changed(draws, "config.json", examples.CONFIG)
        (folder / "config.json").write_bytes(content)
        require_plain_refusal(dse("models", "config.json"), content, folder / "none")


@pytest.mark.parametrize("key", ["n_layer", "n_embd", "n_positions", "vocab_size"])
@pytest.mark.parametrize("size", [10**8, 10**30])
def test_a_config_of_absurd_size_is_refused_with_the_limit(dse, folder, key, size):
    write(folder / "config.json", examples.CONFIG | {key: size})
    refused = dse("models", "config.json")
    assert refused.code == 2
    assert refused.err.startswith(f"error: {folder / 'config.json'}: {key}: {size}: must be at most ")


def changed_onnx(draws, model):
    """``model`` with some numbers, names or lists of its nodes and values changed, as bytes."""
    changed_model = type(model)()
    changed_model.CopyFrom(model)
    if draws.random() < 0.3:
        return changed_text(draws, changed_model.SerializeToString())
    graph = changed_model.graph
    for _ in range(draws.choice((1, 2, 3))):
        node, tensor = draws.choice(graph.node), draws.choice(graph.initializer)
        kind = draws.randrange(7)
        if kind == 0:
            node.op_type = draws.choice(("Relu", "Add", "Loop", "If", "Shape", "Nothing", "", "a\nb", "Reshape"))
        elif kind == 1 and node.input:
            del node.input[draws.randrange(len(node.input)) :]
        elif kind == 2 and node.attribute:
            draws.choice(node.attribute).type = draws.randrange(12)
        elif kind == 3:
            tensor.dims.append(draws.choice((0, -1, 2**40, 2**62)))
        elif kind == 4:
            tensor.data_type = draws.randrange(25)
        elif kind == 5:
            changed_model.opset_import[0].version = draws.choice((0, -1, 1, 7, 2**31, 2**40))
        else:
            graph.input[0].type.tensor_type.shape.dim[draws.randrange(4)].dim_value = draws.choice((0, -3, 2**40, 5))
    return changed_model.SerializeToString()


def test_a_changed_onnx_file_is_answered_or_refused(dse, folder):
    pytest.importorskip("onnx")
    model = examples.onnx_model()
    for _, draws in draws_of("onnx", 40):
        content = changed_onnx(draws, model)
        (folder / "net.onnx").write_bytes(content)
        require_plain_refusal(dse("models", "net.onnx"), content, folder / "none")


@pytest.mark.parametrize(
    ("last_line", "words"),
    [
        ("raise BaseException('no')", "line 3: BaseException: no"),
        ("raise SystemExit(0)", "line 3: SystemExit: 0"),
        ("class Stop(KeyboardInterrupt): pass\nraise Stop", "line 4: Stop: Stop"),
        ("class Mute(Exception):\n    def __str__(self): raise self\nraise Mute", "line 5: Mute: Mute"),
        ("raise GeneratorExit", "line 3: GeneratorExit"),
        ("x = " + "(" * 5_000, "is not valid Python"),
    ],
)
def test_whatever_a_users_file_raises_is_bad_input_with_its_line(dse, folder, last_line, words):
    pytest.importorskip("torch")
    (folder / "file.py").write_text(f"def net():\n    return None\n{last_line}\n")
    refused = dse("models", "file.py:net")
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert line.startswith(f"error: {folder / 'file.py'}: ")
    assert words in line


def test_what_a_users_file_prints_does_not_reach_stdout(dse, folder):
    pytest.importorskip("torch")
    text = "import torch\nprint('hello')\ndef net():\n    return torch.nn.Linear(8, 8), torch.empty(1, 8)\n"
    (folder / "file.py").write_text(text)
    answer = dse("models", "file.py:net", "--json")
    assert answer.code == 0
    json.loads(answer.out)
    assert answer.err == f"dse: {folder / 'file.py'}: hello\n"


@pytest.mark.parametrize("method", ["greedy", "dp", "cp-sat", "lns", "portfolio"])
@pytest.mark.parametrize(("latency_s", "link_bytes_per_s"), [(1e30, 1e9), (1e-6, 1e-30), (1e-30, 1e30)])
def test_partitions_at_the_limits_of_the_numbers_are_answered(dse, folder, method, latency_s, link_bytes_per_s):
    nodes = [node | {"latency_s": latency_s} for node in examples.GRAPH["nodes"]]
    write(folder / "graph.json", examples.GRAPH | {"nodes": nodes})
    link = ("--link-bytes-per-s", link_bytes_per_s)
    answer = dse("partition", "graph.json", "--workers", "0", "--quiet", "--method", method, "--chips", "3", *link)
    assert answer.code == 0, answer.err


def test_a_seed_beyond_a_machine_word_is_refused(dse, folder):
    write(folder / "layers.json", examples.PLACEMENT)
    assert dse("place", "layers.json", "--quiet", "--seed", 2**63 - 1).code == 0
    refused = dse("place", "layers.json", "--quiet", "--seed", 2**63)
    assert refused.code == 2
    assert "--seed" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("layers.json", "--out", "x" * 400), "File name too long"),
        (("layers.json", "--out", "\udcff"), "must be valid Unicode"),
        (("\ud800",), "is not text"),
        (("layers.json", "x" * 5_000), "unexpected extra argument"),
        (("x" * 5_000,), "File name too long"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused_in_one_line(dse, folder, arguments, words):
    write(folder / "layers.json", examples.PLACEMENT)
    refused = dse("place", *arguments, "--quiet")
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert len(line) < 2_000
    assert [path.name for path in folder.iterdir()] == ["layers.json"]


def test_a_folder_that_looks_like_a_bucket_is_a_folder(dse, folder):
    write(folder / "model.json", examples.MODEL)
    job = ("--accelerators", 2, "--global-batch", 4, "--microbatch", "1")
    asked = ("--fixed", "tpuv4", *job, "--workers", 0, "--quiet")
    answer = dse("codesign", "model.json", *asked, "--out", "s3://")
    assert answer.code == 0, answer.err
    assert list((folder / "s3:").glob("tables/*.parquet"))
    assert dse("report", "s3:").code == 0


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("efficiency", 1e-320, "at least"),
        ("efficiency", "-1", "greater than 0"),
        ("memory_efficiency", 0, "greater than 0"),
        ("rows_per_core", 2**70, "at most"),
    ],
)
def test_constants_that_overflow_are_refused(dse, folder, key, value, rule):
    kernels = {"softmax": {"source": "for a test", key: value}}
    write(folder / "accelerator.json", spec("chips", "v100") | {"kernels": kernels})
    write(folder / "model.json", examples.MODEL)
    asked = ("--fixed", "accelerator.json", "--accelerators", 2, "--global-batch", 4, "--quiet")
    refused = dse("codesign", "model.json", *asked)
    assert refused.code == 2
    assert refused.err.startswith(f"error: accelerator.json: kernels.softmax.{key}: ")
    assert rule in refused.err
