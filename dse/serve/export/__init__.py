"""A configuration as what launches it: scripts and files of its engine, a graph of Dynamo, values of llm-d's chart.

Each is read back by the rules of its launcher (:mod:`dse.serve.export.flags`) before it is handed out.
"""

import shlex
from collections.abc import Callable, Iterable

import yaml

from dse.serve.deployment import Deployment, Worker
from dse.serve.export.clusters import dynamo, llm_d
from dse.serve.export.engines import (
    BOOTSTRAP_PORT,
    PORTS,
    arguments,
    nodes_of,
    settings_file,
    settings_of_trtllm,
)
from dse.serve.export.expressible import NotExpressibleError
from dse.serve.export.flags import launcher
from hardware.documents import yaml_of

REFUSALS_FILE = "not-exported.txt"
"""What is not exported, and why."""

_PLACEHOLDERS = "# Replace my-registry/…:my-tag by an image, and have the claim model-cache hold the checkpoint.\n"


def exports(deployment: Deployment) -> dict[str, str]:
    """Texts by file name; what cannot be written has a line in :data:`REFUSALS_FILE`."""
    texts: dict[str, str] = {}
    refused = []
    writers: tuple[Callable[[Deployment], dict[str, str]], ...] = (_scripts, _dynamo, _llm_d)
    for write in writers:
        try:
            texts |= write(deployment)
        except NotExpressibleError as reason:
            refused.append(f"{reason}\n")
    return texts | ({REFUSALS_FILE: "".join(refused)} if refused else {})


def _scripts(deployment: Deployment) -> dict[str, str]:
    texts = {}
    for role, worker in deployment.workers.items():
        if deployment.engine == "trtllm":
            settings = settings_of_trtllm(deployment, role, worker)
            launcher("trtllm").check(settings)
            texts[settings_file(role)] = yaml_of(settings, sort_keys=False)
        texts[f"{deployment.engine}-{role}.sh"] = _script(deployment, role, worker)
    if deployment.prefill is not None:
        texts |= _router(deployment)
    return texts


def _script(deployment: Deployment, role: str, worker: Worker) -> str:
    """One that starts a worker, on each of its nodes."""
    own, nodes = launcher(deployment.engine), deployment.nodes(worker)
    everywhere, others = nodes_of(deployment, worker)
    port = ["--port", str(PORTS[role])]
    words = [*arguments(deployment, role, worker), *everywhere, *port]
    model = ["--model-path"] if deployment.engine == "sglang" else []
    own.read([*model, "$MODEL", *words, *others])
    each = "one worker" if worker.count == 1 else f"each of {worker.count} workers"
    lines = [
        "#!/bin/sh",
        f"# Starts {each} ({role}) on {worker.shape.chips} GPUs with {own.name} {own.version}.",
    ]
    lines.append(f"# Set MODEL to the checkpoint of {deployment.model}.")
    if nodes > 1 and deployment.engine != "trtllm":
        lines.append(f"# Run it on {nodes} nodes; set HEAD to the address of the first, NODE_RANK to 0 … {nodes - 1}.")
    if others:
        lines.append(f'[ "$NODE_RANK" = 0 ] || set -- {" ".join(others)} "$@"')
    command = list(own.command)
    if deployment.engine == "trtllm" and worker.shape.chips > deployment.node_chips:
        lines.append("# Slurm starts one process for each GPU.")
        command = ["srun", "-n", str(worker.shape.chips), "trtllm-llmapi-launch", *command]
    start = " ".join(["exec", *command, *model, '"$MODEL"'])
    lines.append(" \\\n  ".join([start, *_by_flag(words), '"$@"']))
    return "\n".join(lines) + "\n"


def _by_flag(words: Iterable[str]) -> list[str]:
    """Each flag with its value, quoted for a shell; variables stay variables."""
    lines: list[str] = []
    for word in words:
        shown = f'"{word}"' if word.startswith("$") else shlex.quote(word)
        if word.startswith("-"):
            lines.append(shown)
        else:
            lines[-1] += f" {shown}"
    return lines


def _router(deployment: Deployment) -> dict[str, str]:
    """What hands requests to prefill and decode workers, where the engine comes with it."""
    assert deployment.prefill is not None, "workers that compute prompts alone"
    counts = {"prefill": deployment.prefill.count, "decode": deployment.decode.count}
    if deployment.engine == "trtllm":
        document = {
            "hostname": "localhost",
            "port": PORTS["serve"],
            "backend": "pytorch",
            **{
                key: {
                    "num_instances": counts[role],
                    "urls": [f"{role}-{number}:{PORTS[role]}" for number in range(counts[role])],
                }
                for key, role in (("context_servers", "prefill"), ("generation_servers", "decode"))
            },
        }
        launcher("trtllm-disaggregated").check(document)
        head = "# trtllm-serve disaggregated -c trtllm-disaggregated.yaml, with the addresses of the workers as urls.\n"
        return {"trtllm-disaggregated.yaml": head + yaml_of(document, sort_keys=False)}
    if deployment.engine == "sglang":
        prefill = [
            f"--prefill http://prefill-{n}:{PORTS['prefill']} {BOOTSTRAP_PORT}" for n in range(counts["prefill"])
        ]
        decode = [f"--decode http://decode-{n}:{PORTS['decode']}" for n in range(counts["decode"])]
        start = "exec python3 -m sglang_router.launch_router --pd-disaggregation"
        text = " \\\n  ".join([start, *prefill, *decode, f"--port {PORTS['serve']}"])
        return {"sglang-router.sh": f"#!/bin/sh\n# With the addresses of the workers.\n{text}\n"}
    return {}


def _dynamo(deployment: Deployment) -> dict[str, str]:
    documents = dynamo(deployment)
    for document in documents:
        launcher("dynamo").check(document)
    return {"dynamo.yaml": _PLACEHOLDERS + yaml.safe_dump_all(documents, sort_keys=False)}


def _llm_d(deployment: Deployment) -> dict[str, str]:
    values = llm_d(deployment)
    launcher("llm-d").check(values)
    return {"llm-d.yaml": _PLACEHOLDERS + yaml_of(values, sort_keys=False)}
