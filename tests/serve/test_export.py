"""Files that launch a configuration, read back by the rules of their launchers."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dse.serve.deployment import Deployment, Worker
from dse.serve.export import REFUSALS_FILE, exports
from dse.serve.export.flags import launcher, list_launchers
from dse.serve.shape import Shape
from hardware.inputs import InputError

ENGINES = ("vllm", "sglang", "trtllm")
SPREAD = Shape(tensor=1, attention_data=8, expert=8, expert_tensor=1)
CUT = Shape(tensor=8, expert=1, expert_tensor=8)


def deployment(engine: str, decode: Shape = SPREAD, prefill: Shape | None = CUT, **others: Any) -> Deployment:
    """Of DeepSeek-V3: one worker for prompts in two, and two for tokens."""
    first = None if prefill is None else Worker(prefill, 1, 16, 16384)
    return Deployment(
        "deepseek-v3", engine, Worker(decode, 2, 64, 8192), 8192, 9216, has_experts=True, cache_bytes=1.0,
        memory_share=0.88, prefill=first, **others,
    )  # fmt: skip


def read_script(text: str, engine: str) -> dict[str, str]:
    """The flags of a script, read as its launcher reads them."""
    own = launcher(engine)
    words = shlex.split(text[text.index("exec ") :].replace("\\\n", " "))
    start = next(place for place in range(len(words)) if tuple(words[place : place + len(own.command)]) == own.command)
    assert words[-1] == "$@"
    return own.read(words[start + len(own.command) : -1])


@pytest.mark.parametrize("name", list_launchers())
def test_a_launcher_says_where_its_rules_are_from(name: str) -> None:
    own = launcher(name)
    assert own.name == name
    assert own.version
    assert len(own.source) > 20


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("prefill", [None, CUT, SPREAD])
def test_every_file_is_taken_by_its_launcher(engine: str, prefill: Shape | None, tmp_path: Path) -> None:
    texts = exports(deployment(engine, prefill=prefill))
    assert texts
    for name, text in texts.items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text, encoding="utf-8")
            subprocess.run(["sh", "-n", str(tmp_path / name)], check=True)
        if name.endswith(".sh") and name != "sglang-router.sh":
            assert read_script(text, engine)
        if name.endswith(".yaml"):
            stem = name.removesuffix(".yaml")
            known = stem if stem in list_launchers() else engine
            for document in yaml.safe_load_all(text):
                launcher(known).check(document)
    assert (REFUSALS_FILE in texts) == (engine != "vllm")


def test_ranks_of_vllm_are_engines_of_their_own() -> None:
    flags = read_script(exports(deployment("vllm"))["vllm-decode.sh"], "vllm")
    assert (flags["--tensor-parallel-size"], flags["--data-parallel-size"]) == ("1", "8")
    assert "--enable-expert-parallel" in flags
    assert (flags["--max-num-seqs"], flags["--max-model-len"]) == ("64", "9216")
    assert flags["--kv-cache-dtype"] == "fp8"
    assert json.loads(flags["--kv-transfer-config"])["kv_role"] == "kv_both"


def test_ranks_of_sglang_are_within_tensor_and_share_its_limits() -> None:
    flags = read_script(exports(deployment("sglang"))["sglang-decode.sh"], "sglang")
    assert (flags["--tensor-parallel-size"], flags["--data-parallel-size"]) == ("8", "8")
    assert (flags["--max-running-requests"], flags["--cuda-graph-max-bs"]) == ("512", "64")
    assert (flags["--disaggregation-mode"], flags["--expert-parallel-size"]) == ("decode", "8")
    alone = read_script(exports(deployment("sglang", prefill=None, decode=CUT))["sglang-serve.sh"], "sglang")
    assert not {"--disaggregation-mode", "--data-parallel-size"} & set(alone)


def test_files_of_trtllm_have_blocks_and_a_buffer_for_the_longest_request() -> None:
    texts = exports(deployment("trtllm"))
    prefill, decode = (yaml.safe_load(texts[f"trtllm-{role}.yaml"]) for role in ("prefill", "decode"))
    assert prefill["disable_overlap_scheduler"]
    assert prefill["max_num_tokens"] == 16384
    assert "enable_chunked_prefill" not in prefill
    assert decode["max_num_tokens"] == decode["max_batch_size"] == 64
    assert decode["enable_attention_dp"]
    for each in (prefill, decode):
        assert each["cache_transceiver_config"]["max_tokens_in_buffer"] >= 8192 + 1024
        assert each["max_num_tokens"] % each["kv_cache_config"]["tokens_per_block"] == 0
    servers = yaml.safe_load(texts["trtllm-disaggregated.yaml"])
    assert servers["generation_servers"]["num_instances"] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_clusters_get_as_many_workers_and_chips_as_the_configuration(engine: str) -> None:
    own = deployment(engine)
    texts = exports(own)
    graph = list(yaml.safe_load_all(texts["dynamo.yaml"]))[-1]
    services = graph["spec"]["services"]
    chips = 0
    for role, worker in own.workers.items():
        service = services[role]
        assert (service["subComponentType"], service["replicas"]) == (role, worker.count)
        nodes = service.get("multinode", {}).get("nodeCount", 1)
        chips += service["replicas"] * nodes * int(service["resources"]["limits"]["gpu"])
    assert chips == own.chips == 24
    if engine == "vllm":
        values = yaml.safe_load(texts["llm-d.yaml"])
        for role in ("prefill", "decode"):
            parallel = values[role]["parallelism"]
            assert parallel["tensor"] * parallel["data"] == 8
            flags = launcher("vllm").read(values[role]["containers"][0]["args"])
            assert flags["--data-parallel-size"] == str(parallel["data"])


def test_a_worker_on_several_nodes_is_started_on_each() -> None:
    wide = Shape(tensor=1, attention_data=32, expert=32, expert_tensor=1)
    for engine in ENGINES:
        own = deployment(engine, decode=wide)
        text = exports(own)[f"{engine}-decode.sh"]
        assert "4 nodes" in text or "srun -n 32" in text
        graph = list(yaml.safe_load_all(exports(own)["dynamo.yaml"]))[-1]
        assert graph["spec"]["services"]["decode"]["multinode"]["nodeCount"] == 4


def test_drafts_are_those_of_a_prediction_layer() -> None:
    for engine in ENGINES:
        own = replace(deployment(engine, prefill=None), draft_tokens=2)
        texts = exports(own)
        if engine == "trtllm":
            assert yaml.safe_load(texts["trtllm-serve.yaml"])["speculative_config"]["max_draft_len"] == 2
            continue
        flags = read_script(texts[f"{engine}-serve.sh"], engine)
        drafts = {"vllm": "--speculative-config", "sglang": "--speculative-num-draft-tokens"}[engine]
        assert ("2" in flags[drafts]) if engine == "vllm" else flags[drafts] == "3"


@pytest.mark.parametrize(
    ("engine", "shape", "rule"),
    [
        ("vllm", Shape(8, 1, 2, 4), "expert must be 1 or tensor · attention_data (8), but is 2"),
        ("trtllm", Shape(2, 4, 8, 1), "attention must be cut over all GPUs of a stage or none"),
    ],
)
def test_what_an_engine_lacks_is_said(engine: str, shape: Shape, rule: str) -> None:
    texts = exports(deployment(engine, decode=shape, prefill=None))
    assert f"{engine}-serve.sh" not in texts
    assert rule in texts[REFUSALS_FILE]


def test_unknown_flags_and_values_are_refused() -> None:
    own = launcher("sglang")
    with pytest.raises(InputError, match="did you mean --tensor-parallel-size"):
        own.read(["--tensor-parallel-sizes", "8"])
    with pytest.raises(InputError, match="must be one of auto, fp8_e4m3"):
        own.read(["--kv-cache-dtype", "bf16"])
    with pytest.raises(InputError, match="must be a setting of the launcher"):
        launcher("trtllm").check({"kv_cache_config": {"free_memory": 0.8}})
    with pytest.raises(InputError, match="must be true or false"):
        launcher("trtllm").check({"enable_attention_dp": 1})
