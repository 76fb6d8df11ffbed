"""The cluster files: valid by Ray's own schema, offline; consistent in themselves, with each other and the project."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
FILES = ("deploy/aws.yaml", "deploy/gcp.yaml")
CLOUD_CLIENT = {"aws": "boto3", "gcp": "google-api-python-client"}
TOKEN = "~/.ray/auth_token"


def load(name):
    return yaml.safe_load((ROOT / name).read_text())


@pytest.fixture(params=FILES)
def cluster(request):
    return load(request.param)


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def of_ray(name):
    """The text of a file that Ray's cluster launcher reads itself."""
    return (resources.files("ray") / "autoscaler" / name).read_text()


def commands_of(cluster):
    """What runs on a node of each kind, by section, as ``ray up`` merges them."""
    lists = {name: commands for name, commands in cluster.items() if name.endswith("_commands")}
    common = lists.pop("setup_commands")
    return lists | {
        "head_setup_commands": common + cluster["head_setup_commands"],
        "worker_setup_commands": common + cluster["worker_setup_commands"],
    }


def workers(cluster):
    types = cluster["available_node_types"]
    return {name: node for name, node in types.items() if name != cluster["head_node_type"]}


def setups(cluster):
    """The setup commands of each node type, as Ray runs them: a type's own replace all others."""
    merged = commands_of(cluster)
    own = {
        name: node.get("worker_setup_commands", merged["worker_setup_commands"])
        for name, node in workers(cluster).items()
    }
    return {cluster["head_node_type"]: merged["head_setup_commands"]} | own


def installed(commands):
    """The requirements that ``pip install`` is given, without its options."""
    found = []
    for command in commands:
        words = [word.strip('"') for word in command.split()]
        if words[1:2] == ["install"]:
            values = {index + 1 for index, word in enumerate(words) if word == "--constraint"}
            found += [
                word for index, word in enumerate(words) if index > 1 and index not in values and word[:2] != "--"
            ]
    return found


@pytest.mark.ray_interface
def test_rays_own_schema_takes_the_file(cluster):
    schema = json.loads(of_ray("ray-schema.json"))
    jsonschema.validate(cluster, schema)
    with pytest.raises(jsonschema.ValidationError, match="max_worker"):
        jsonschema.validate(cluster | {"max_worker": 3}, schema)


@pytest.mark.ray_interface
def test_nothing_of_rays_defaults_is_left_to_run(cluster):
    """Ray's defaults install another Ray, with the system's pip."""
    defaults = yaml.safe_load(of_ray(f"{cluster['provider']['type']}/defaults.yaml"))
    sections = {name for name, commands in defaults.items() if name.endswith("_commands") and commands}
    assert {"setup_commands", "head_start_ray_commands"} <= sections <= set(cluster)


def test_the_head_evaluates_nothing_and_stays(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert head["max_workers"] == 0
    assert not re.search("spot|preemptible", str(head).lower())


def test_workers_come_on_demand_and_no_limit_is_tighter_than_it_looks(cluster):
    nodes = workers(cluster)
    assert all(node["min_workers"] == 0 < node["max_workers"] for node in nodes.values())
    assert sum(node["max_workers"] for node in nodes.values()) == cluster["max_workers"]
    assert re.search("spot|preemptible", str(nodes["cpu_worker"]).lower())
    assert "GPU" not in nodes["cpu_worker"]["resources"]
    assert nodes["gpu_worker"]["resources"]["GPU"] >= 1


def test_a_worker_offers_the_cpus_that_its_machine_has(cluster):
    for node in workers(cluster).values():
        machine = node["node_config"].get("InstanceType") or node["node_config"]["machineType"]
        xlarges, count = re.fullmatch(r"[a-z]+\d+[a-z]*(?:\.(\d+)xlarge|-standard-(\d+))", machine).groups()
        assert node["resources"]["CPU"] == (4 * int(xlarges) if xlarges else int(count))


def test_every_disk_of_google_lies_in_the_zone_of_its_machine():
    cluster = load("deploy/gcp.yaml")
    zone = cluster["provider"]["availability_zone"]
    assert zone.startswith(cluster["provider"]["region"])
    assert set(re.findall(r"zones/([\w-]+)/", str(cluster))) == {zone}


def test_all_nodes_run_one_system_and_one_python_that_the_project_takes(cluster, project):
    images = re.findall(r"'(?:ImageId|sourceImage)': '([^']+)'", str(cluster))
    assert len(images) == len(cluster["available_node_types"])
    assert all(re.search(r"24\.?04", image) for image in images)
    pythons = [set(re.findall(r"python(3\.\d+)", " ".join(commands))) for commands in setups(cluster).values()]
    assert all(found == pythons[0] and len(found) == 1 for found in pythons)
    assert SpecifierSet(project["project"]["requires-python"]).contains(f"{pythons[0].pop()}.0")


def test_setup_installs_the_project_and_what_starts_machines(cluster, project):
    client = CLOUD_CLIENT[cluster["provider"]["type"]]
    names = {name: installed(commands) for name, commands in setups(cluster).items()}
    assert names == {"head": ["$HOME/dse", client], "cpu_worker": ["$HOME/dse"], "gpu_worker": ["$HOME/dse[learn]"]}
    extras = {extra for found in names.values() for name in found for extra in re.findall(r"\[(.+)\]", name)}
    assert extras <= set(project["project"]["optional-dependencies"])


def test_rays_version_is_said_in_pyproject_alone(cluster):
    commands = [command for found in setups(cluster).values() for command in found]
    assert not any(re.search(r"==|\bray\[", command) for command in commands)


def test_a_gpu_worker_is_set_up_as_a_cpu_worker_and_for_learning(cluster):
    found = setups(cluster)
    assert [command.replace("[learn]", "") for command in found["gpu_worker"]] == found["cpu_worker"]


def test_workers_install_the_versions_of_the_head(cluster):
    [versions] = cluster["cluster_synced_files"]
    found = setups(cluster)
    assert found["head"][-1].endswith(f"pip freeze --exclude-editable > {versions}")
    assert all(any(f"--constraint {versions}" in command for command in found[name]) for name in workers(cluster))


def test_what_is_mounted_is_enough_to_install(cluster, project, tmp_path):
    mounted = {remote: local for remote, local in cluster["file_mounts"].items() if remote != TOKEN}
    for remote, local in mounted.items():
        assert (ROOT / local).resolve() != ROOT, "all of a checkout: Ray would hash its environments and runs"
        assert remote == f"~/dse/{local}"
        take = shutil.copytree if (ROOT / local).is_dir() else shutil.copy
        take(ROOT / local, tmp_path / local)
    packages = {pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == packages
    build = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_editable('.'))"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)


def test_every_node_has_the_token_and_starts_only_with_one(cluster):
    assert cluster["file_mounts"][TOKEN] == TOKEN
    for commands in setups(cluster).values():
        assert any(f"chmod 600 {TOKEN}" in command for command in commands)
        assert any("export RAY_AUTH_MODE=token" in command and ".bashrc" in command for command in commands)
    for role in ("head", "worker"):
        assert re.search(
            r"; RAY_AUTH_MODE=token [\w= ]*~/\.dse/bin/ray start", cluster[f"{role}_start_ray_commands"][-1]
        )


def test_a_stopped_job_has_time_to_write_down_what_it_found(cluster):
    assert "RAY_JOB_STOP_SIGNAL=SIGINT RAY_JOB_STOP_WAIT_TIME_S=60 " in cluster["head_start_ray_commands"][-1]


def test_caches_stay_behind_and_run_directories_can_be_fetched(cluster):
    """Excludes hold for ``ray rsync-down`` too."""
    assert cluster["rsync_exclude"] == ["__pycache__"]


def test_commands_are_shell(cluster):
    lists = [*setups(cluster).values(), *commands_of(cluster).values()]
    for command in {command for commands in lists for command in commands}:
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_the_files_differ_in_what_the_providers_name_differently_alone():
    def common(cluster):
        client = CLOUD_CLIENT[cluster.pop("provider")["type"]]
        for node in cluster["available_node_types"].values():
            del node["node_config"]
        cluster["head_setup_commands"] = [command.replace(client, "") for command in cluster["head_setup_commands"]]
        return cluster

    assert common(load(FILES[0])) == common(load(FILES[1]))
