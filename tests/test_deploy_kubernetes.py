"""The Kubernetes files of deploy/: fields are those of Kubernetes and KubeRay, of their types, and names agree."""

import os
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml
from kubernetes.client import models

ROOT = Path(__file__).parents[1]
FILES = ("kuberay-job.yaml", "kuberay-cluster.yaml")

TEXT, NUMBER, FLAG, TEXTS = "str", "int", "bool", "dict[str, str]"
KUBERAY = {
    "RayJob": {"apiVersion": TEXT, "kind": TEXT, "metadata": "V1ObjectMeta", "spec": "RayJobSpec"},
    "RayCluster": {"apiVersion": TEXT, "kind": TEXT, "metadata": "V1ObjectMeta", "spec": "RayClusterSpec"},
    "RayJobSpec": {
        "activeDeadlineSeconds": NUMBER, "backoffLimit": NUMBER, "clusterSelector": TEXTS, "entrypoint": TEXT,
        "entrypointNumCpus": NUMBER, "entrypointResources": TEXT, "jobId": TEXT, "managedBy": TEXT, "metadata": TEXTS,
        "preRunningDeadlineSeconds": NUMBER, "rayClusterSpec": "RayClusterSpec", "runtimeEnvYAML": TEXT,
        "shutdownAfterJobFinishes": FLAG, "submissionMode": TEXT, "submitterPodTemplate": "V1PodTemplateSpec",
        "suspend": FLAG, "ttlSecondsAfterFinished": NUMBER,
    },
    "RayClusterSpec": {
        "authOptions": "AuthOptions", "autoscalerOptions": "AutoscalerOptions", "enableInTreeAutoscaling": FLAG,
        "gcsFaultToleranceOptions": "GcsFaultToleranceOptions", "headGroupSpec": "HeadGroupSpec",
        "headServiceAnnotations": TEXTS, "managedBy": TEXT, "rayVersion": TEXT, "suspend": FLAG,
        "workerGroupSpecs": "list[WorkerGroupSpec]",
    },
    "AuthOptions": {"mode": TEXT, "secretName": TEXT},
    "AutoscalerOptions": {
        "env": "list[V1EnvVar]", "idleTimeoutSeconds": NUMBER, "image": TEXT, "resources": "V1ResourceRequirements",
        "upscalingMode": TEXT, "version": TEXT,
    },
    "GcsFaultToleranceOptions": {
        "externalStorageNamespace": TEXT, "redisAddress": TEXT, "redisPassword": "RedisCredential",
        "redisUsername": "RedisCredential",
    },
    "RedisCredential": {"value": TEXT, "valueFrom": "V1EnvVarSource"},
    "HeadGroupSpec": {
        "enableIngress": FLAG, "headService": "V1Service", "labels": TEXTS, "rayStartParams": TEXTS, "resources": TEXTS,
        "serviceType": TEXT, "template": "V1PodTemplateSpec",
    },
    "WorkerGroupSpec": {
        "groupName": TEXT, "idleTimeoutSeconds": NUMBER, "labels": TEXTS, "maxReplicas": NUMBER, "minReplicas": NUMBER,
        "numOfHosts": NUMBER, "rayStartParams": TEXTS, "replicas": NUMBER, "resources": TEXTS, "suspend": FLAG,
        "template": "V1PodTemplateSpec",
    },
}  # fmt: skip
"""Fields of KubeRay 1.6 and their types; the API reference of ray.io/v1 in Ray's documentation is the source."""

REQUIRED = {
    "RayJobSpec": {"entrypoint", "rayClusterSpec"},
    "RayClusterSpec": {"headGroupSpec"},
    "HeadGroupSpec": {"template"},
    "WorkerGroupSpec": {"groupName", "minReplicas", "maxReplicas", "template"},
}
"""KubeRay's own, and of a job that which makes it one with a cluster of its own."""

SIMPLE = {TEXT: str, NUMBER: int, "float": (int, float), FLAG: bool, "object": object, "datetime": str}


def fields_of(name):
    """The types of the fields of a type, by the names of the files."""
    if name in KUBERAY:
        return KUBERAY[name]
    model = getattr(models, name)
    return {model.attribute_map[field]: kind for field, kind in model.openapi_types.items()}


def faults(value, kind, path=""):
    """What is wrong with a value that should have this type, each with its path."""
    if inner := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            return [f"{path}: must be a list"]
        return [fault for at, each in enumerate(value) for fault in faults(each, inner[1], f"{path}[{at}]")]
    if inner := re.fullmatch(r"[Dd]ict\[str, (.+)\]", kind):
        if not isinstance(value, dict):
            return [f"{path}: must be a mapping"]
        return [fault for key, each in value.items() for fault in faults(each, inner[1], f"{path}.{key}")]
    if kind in SIMPLE:
        right = isinstance(value, SIMPLE[kind]) and (kind == FLAG or kind == "object" or not isinstance(value, bool))
        return [] if right else [f"{path}: must be {kind}"]
    if not isinstance(value, dict):
        return [f"{path}: must be a mapping"]
    types = fields_of(kind)
    unknown = [f"{path}.{key}: {kind} has no such field" for key in value if key not in types]
    missing = [f"{path}.{key}: is missing" for key in sorted(REQUIRED.get(kind, set()) - value.keys())]
    inside = [f for key, each in value.items() if key in types for f in faults(each, types[key], f"{path}.{key}")]
    return unknown + missing + inside


def documents(name):
    """The objects of a file."""
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text()))


def type_of(document):
    kind = document["kind"]
    return kind if kind in KUBERAY else f"V1{kind}"


def objects(value):
    """All mappings inside a value."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) else []) + [found for child in children for found in objects(child)]


def head_of(job):
    return job["spec"]["rayClusterSpec"]["headGroupSpec"]


@pytest.mark.parametrize("name", FILES)
def test_every_field_is_known_and_of_its_type(name):
    for document in documents(name):
        assert faults(document, type_of(document)) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda job: job["spec"].update(backofLimit=3), ".spec.backofLimit: RayJobSpec has no such field"),
        (lambda job: job["spec"].update(backoffLimit="3"), ".spec.backoffLimit: must be int"),
        (
            lambda job: head_of(job)["rayStartParams"].update({"num-cpus": 0}),
            ".spec.rayClusterSpec.headGroupSpec.rayStartParams.num-cpus: must be str",
        ),
        (
            lambda job: job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0].update(
                img=1
            ),
            ".spec.rayClusterSpec.headGroupSpec.template.spec.containers[0].img: V1Container has no such field",
        ),
        (
            lambda job: job["spec"]["rayClusterSpec"].pop("headGroupSpec"),
            ".spec.rayClusterSpec.headGroupSpec: is missing",
        ),
    ],
)
def test_a_wrong_field_is_seen(change, fault):
    [job] = documents("kuberay-job.yaml")
    change(job)
    assert faults(job, "RayJob") == [fault]


@pytest.mark.parametrize("name", FILES)
def test_the_operators_own_schema_takes_the_file(name):
    folder = Path(os.environ.get("DSE_CASES", "")) / "kuberay"
    if "DSE_CASES" not in os.environ or not folder.is_dir():
        pytest.skip("DSE_CASES has no folder kuberay with KubeRay's resource definitions")
    definitions = [yaml.safe_load(path.read_text()) for path in folder.glob("ray.io_*.yaml")]
    schemas = {
        each["spec"]["names"]["kind"]: version["schema"]["openAPIV3Schema"]
        for each in definitions for version in each["spec"]["versions"] if version["name"] == "v1"
    }  # fmt: skip
    for document in documents(name):
        if document["kind"] in schemas:
            jsonschema.validate(document, schemas[document["kind"]])


@pytest.mark.parametrize("name", FILES)
def test_volumes_claims_secrets_and_services_are_those_of_the_file(name):
    found = documents(name)
    comments = (ROOT / "deploy" / name).read_text()
    claims = {each["metadata"]["name"] for each in found if each["kind"] == "PersistentVolumeClaim"}
    for each in objects(found):
        if "containers" in each:
            volumes = {volume["name"] for volume in each.get("volumes", [])}
            assert {mount["name"] for box in each["containers"] for mount in box.get("volumeMounts", [])} == volumes
        if "persistentVolumeClaim" in each:
            assert each["persistentVolumeClaim"]["claimName"] in claims
        if "configMap" in each:
            assert f"create configmap {each['configMap']['name']} " in comments
        if "secretKeyRef" in each:
            secret = each["secretKeyRef"]
            assert f"create secret generic {secret['name']} --from-literal {secret['key']}=" in comments
        if "redisAddress" in each:
            host, port = each["redisAddress"].split(":")
            [service] = [each for each in found if each["kind"] == "Service"]
            assert (service["metadata"]["name"], service["spec"]["ports"]) == (host, [{"port": int(port)}])


@pytest.mark.parametrize("name", FILES)
def test_heads_evaluate_nothing_and_every_pod_has_the_image_that_the_file_builds(name):
    text = (ROOT / "deploy" / name).read_text()
    assert "docker build --target cluster --tag REGISTRY/dse ." in text
    assert " AS cluster\n" in (ROOT / "Dockerfile").read_text()
    for each in objects(documents(name)):
        if "headGroupSpec" in each:
            assert each["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
            groups = [each["headGroupSpec"], *each["workerGroupSpecs"]]
            boxes = [box for group in groups for box in group["template"]["spec"]["containers"]]
            assert {box["image"] for box in boxes} == {"REGISTRY/dse"}
            assert each["authOptions"] == {"mode": "token"}


def test_the_commands_of_the_files_are_commands_of_dse(dse, tmp_path, monkeypatch):
    """With the example in place of the mounted file, and until the cluster is asked for."""
    monkeypatch.chdir(ROOT)
    [job] = documents("kuberay-job.yaml")
    comments = (ROOT / "deploy" / "kuberay-cluster.yaml").read_text()
    [submitted] = re.findall(r"^#       (dse campaign .*)$", comments, re.MULTILINE)
    for command in (job["spec"]["entrypoint"], submitted):
        words = shlex.split(command.replace("/campaign/campaign.yaml", "docs/examples/campaign.yaml"))[1:]
        at = {"--out": str(tmp_path / "run"), "--mirror": (tmp_path / "mirror").as_uri(), "--address": "127.0.0.1:1"}
        words = [at.get(before, word) for before, word in zip(["", *words], words, strict=False)]
        answer = dse(*words)
        assert (answer.code, "no Ray cluster answers there" in answer.err) == (2, True)
