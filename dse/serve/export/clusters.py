"""Workers on Kubernetes: a graph of Dynamo, and values of llm-d's Helm chart."""

from typing import Any

from dse.serve.deployment import Deployment, Worker
from dse.serve.export.engines import arguments, settings_file, settings_of_trtllm
from dse.serve.export.expressible import refuse
from hardware.documents import yaml_of

Document = dict[str, Any]

_MODELS = "/model-cache"
_PROXIED_PORT, _SERVICE_PORT = 8200, 8000
_MODULES = {"vllm": "dynamo.vllm", "sglang": "dynamo.sglang", "trtllm": "dynamo.trtllm"}


def dynamo(deployment: Deployment) -> list[Document]:
    """The documents of a file for ``kubectl apply``: settings of TensorRT-LLM's workers, and the graph."""
    services = {
        "Frontend": {
            "componentType": "frontend",
            "replicas": 1,
            "extraPodSpec": {"mainContainer": {"image": _image(deployment)}},
        }
    }
    documents: list[Document] = []
    for role, worker in deployment.workers.items():
        services[role] = _service(deployment, role, worker)
        if deployment.engine == "trtllm":
            text = yaml_of(settings_of_trtllm(deployment, role, worker), sort_keys=False)
            documents.append(_config_map(role, text))
    graph = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": _label(deployment)},
        "spec": {
            "backendFramework": deployment.engine,
            "pvcs": [{"name": "model-cache", "create": False}],
            "services": services,
        },
    }
    return [*documents, graph]


def llm_d(deployment: Deployment) -> Document:
    """Values of the chart llm-d-modelservice.

    Raises:
        NotExpressibleError: another engine than vLLM, or stages, which the chart has no key for.
    """
    stages = max(worker.shape.pipeline for worker in deployment.workers.values())
    refuse(
        "llm-d",
        (deployment.engine != "vllm", f"the engine must be vllm, but is {deployment.engine}"),
        (stages > 1, f"pipeline must be 1, but is {stages}"),
    )
    several = any(deployment.nodes(worker) > 1 for worker in deployment.workers.values())
    is_split = deployment.prefill is not None
    proxy: Document = {"enabled": is_split}
    if is_split:
        proxy |= {"targetPort": _PROXIED_PORT, "connector": "nixlv2"}
    values: Document = {
        "modelArtifacts": {
            "name": deployment.model,
            "uri": f"pvc://model-cache/{deployment.model}",
            "mountPath": _MODELS,
        },
        "multinode": several,
        "routing": {"servicePort": _SERVICE_PORT, "proxy": proxy},
        "decode": _pods(deployment, "decode" if is_split else "serve", deployment.decode),
        "prefill": {"create": False},
    }
    if deployment.prefill is not None:
        values["prefill"] = _pods(deployment, "prefill", deployment.prefill)
    return values


def _pods(deployment: Deployment, role: str, worker: Worker) -> Document:
    nodes, shape = deployment.nodes(worker), worker.shape
    refuse(
        "llm-d",
        (shape.attention_data % nodes > 0, f"a rank must not span nodes of {deployment.node_chips} GPUs"),
    )
    port = _PROXIED_PORT if role == "decode" else _SERVICE_PORT
    parallelism = {
        "tensor": shape.tensor,
        "data": shape.attention_data,
        "dataLocal": shape.attention_data // nodes,
        "workers": nodes,
    }
    container = {
        "name": "vllm",
        "image": _image(deployment),
        "modelCommand": "custom",
        "command": ["vllm", "serve", _model(deployment)],
        "args": [*arguments(deployment, role, worker), "--port", str(port)],
        "mountModelVolume": True,
    }
    return {"create": True, "replicas": worker.count, "parallelism": parallelism, "containers": [container]}


def _service(deployment: Deployment, role: str, worker: Worker) -> Document:
    nodes = deployment.nodes(worker)
    service: Document = {"componentType": "worker"}
    if role != "serve":
        service["subComponentType"] = role
    service["replicas"] = worker.count
    if nodes > 1:
        service["multinode"] = {"nodeCount": nodes}
    container: Document = {
        "image": _image(deployment),
        "command": ["python3", "-m", _MODULES[deployment.engine]],
        "args": _dynamo_arguments(deployment, role, worker),
    }
    pod: Document = {"mainContainer": container}
    if deployment.engine == "trtllm":
        container["volumeMounts"] = [{"name": f"{role}-config", "mountPath": "/config"}]
        pod["volumes"] = [{"name": f"{role}-config", "configMap": {"name": f"{role}-config"}}]
    return service | {
        "resources": {"limits": {"gpu": str(-(-worker.shape.chips // nodes))}},
        "volumeMounts": [{"name": "model-cache", "mountPoint": _MODELS}],
        "sharedMemory": {"size": "80Gi"},
        "extraPodSpec": pod,
    }


def _dynamo_arguments(deployment: Deployment, role: str, worker: Worker) -> list[str]:
    """Of a component: its engine's flags, and its part where prompts are computed apart."""
    key = "--model" if deployment.engine == "vllm" else "--model-path"
    words = [key, _model(deployment), "--served-model-name", deployment.model]
    if deployment.engine == "trtllm":
        part = [] if role == "serve" else ["--disaggregation-mode", role]
        return [*words, "--extra-engine-args", f"/config/{settings_file(role)}", *part]
    part = ["--is-prefill-worker"] if deployment.engine == "vllm" and role == "prefill" else []
    if deployment.engine == "sglang":
        part = ["--skip-tokenizer-init"]
    return [*words, *arguments(deployment, role, worker), *part]


def _config_map(role: str, text: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{role}-config"},
        "data": {settings_file(role): text},
    }


def _model(deployment: Deployment) -> str:
    return f"{_MODELS}/{deployment.model}"


def _label(deployment: Deployment) -> str:
    """A name that Kubernetes takes."""
    return f"{deployment.engine}-{deployment.model}".lower().replace(".", "-").replace("_", "-")[:63].rstrip("-")


def _image(deployment: Deployment) -> str:
    return f"my-registry/{deployment.engine}-runtime:my-tag"
