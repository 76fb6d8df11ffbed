"""The private Ray of a command: closed to other users of the machine and to its network, and ended with the command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import killing
from tests.codesign.test_exhaustive import TINY_MODEL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SMALL = ("--accelerators", 16, "--global-batch", 32, "--microbatch", 1, "--hbm-gb", 1, "--tensor-parallel", 1)
WHOLE = ("--search", "hysteresis", "--hysteresis", 59748)
"""Every architecture, which would take minutes: the command is ended before."""

LISTEN = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
"""127.0.0.1, the same for IPv6, and ::1, as Linux writes them."""


class Command:
    """``dse codesign`` at work on its private Ray, and what this has opened."""

    def __init__(self, folder):
        self.out, self.printed, self.home = folder / "run", folder / "printed.txt", folder / "home"
        self.home.mkdir()
        (folder / "tiny.yaml").write_text(TINY_MODEL)
        command = [sys.executable, "-m", "dse", "codesign", folder / "tiny.yaml", *SMALL, *WHOLE, "--workers", 1]
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        # Kernels that were compiled before are found where they are.
        kernels = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
        with self.printed.open("w") as printed:
            self.process = subprocess.Popen(
                [*map(str, command), "--out", str(self.out)],
                cwd=ROOT,
                env=own | kernels | {"HOME": str(self.home), "RAY_worker_niceness": "0"},
                stdout=printed,
                stderr=printed,
            )
        journal = self.out / "journal.jsonl"
        while not (journal.exists() and journal.stat().st_size):
            assert self.process.poll() is None, self.printed.read_text()
            time.sleep(0.1)
        self.started = killing.descendants(self.process.pid)
        (self.folder,) = {Path(found) for each in self.started for found in re.findall(r"/tmp/dse-\w+", each.title)}

    def listening(self):
        """{port: address} of the sockets at which its processes listen."""
        sockets = {}
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_, = words = line.split()  # fmt: skip
                if state == LISTEN:
                    sockets[f"socket:[{words[9]}]"] = local.split(":")
        found = {}
        for pid in (self.process.pid, *(each.pid for each in self.started)):
            for link in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    address, port = sockets[os.readlink(link)]
                except (OSError, KeyError):
                    continue
                found[int(port, 16)] = address
        return found


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    running = Command(tmp_path_factory.mktemp("private"))
    yield running
    running.process.kill()
    running.process.wait()
    killing.end(running.started)


def mode(path):
    return path.stat().st_mode & 0o777


def strange(prefix, host, ports):
    """What :mod:`tests.actors.stranger` hears from each port."""
    asked = [*prefix, sys.executable, "-m", "tests.actors.stranger", host, *map(str, ports)]
    heard = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    assert heard.returncode == 0, heard.stderr
    return json.loads(heard.stdout)


@pytest.mark.ray_interface
def test_its_files_are_its_users_alone(command):
    assert mode(command.folder) == 0o700
    assert command.folder.stat().st_uid == os.getuid()
    assert mode(command.folder / "token") == 0o600
    assert not (command.home / ".ray").exists(), "Ray has made a token of its own, for everybody to read"


@pytest.mark.ray_interface
def test_it_listens_on_loopback_only(command):
    assert len(command.listening()) >= 5, "the processes of Ray were not found"
    assert {address for address in command.listening().values() if address not in LOOPBACK} == set()


def test_a_stranger_on_the_machine_is_refused_and_gets_figures_at_most(command):
    """As nobody (uid 65534), where the tests run as root."""
    heard = strange((), "127.0.0.1", command.listening())
    assert set(heard.values()) == {"UNAUTHENTICATED", "401", "metrics"}
    # Figures for Prometheus: of the dashboard's process, the autoscaler and the node's agent.
    assert list(heard.values()).count("metrics") <= 3


@pytest.fixture
def network():
    """(a command prefix that enters another network namespace, the address of this one there)."""
    name, here, there = f"dse{os.getpid()}", "192.168.254.1", "192.168.254.2"
    steps = (
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip addr add {here}/30 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add {there}/30 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip netns exec {name} true",
    )
    try:
        for step in steps:
            try:
                subprocess.run(step.split(), check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no network namespace can be made here: {error}")
        yield ("ip", "netns", "exec", name), here
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_nobody_in_another_network_reaches_it(command, network):
    prefix, address = network
    assert set(strange(prefix, address, command.listening()).values()) == {"refused"}


def test_sigterm_while_ray_starts_leaves_a_result(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_MODEL)
    command = [sys.executable, "-m", "dse", "codesign", tmp_path / "tiny.yaml", *SMALL, *WHOLE, "--workers", 1]
    process = subprocess.Popen([*map(str, command), "--quiet", "--out", str(tmp_path / "run")], cwd=ROOT)
    while not any("gcs_server" in each.title for each in killing.descendants(process.pid)):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] in ("interrupted", "unknown")


def test_sigterm_leaves_the_best_so_far_and_nothing_else(command):
    """The last one: it ends the command."""
    command.process.send_signal(signal.SIGTERM)
    assert command.process.wait() == 130, command.printed.read_text()
    result = json.loads((command.out / "result.json").read_text())
    assert result["status"] == "interrupted"
    assert result["objective"]["value"] > 0
    left, _ = killing.left_after_a_while(command.started)
    assert left == set()
    assert not command.folder.exists()


@pytest.mark.ray_interface
@pytest.mark.parametrize("command", [("pretrain", "partition", "--out", "run"), ("codesign", "bert-large")])
def test_what_ray_reads_when_it_is_imported_is_set_before(command, tmp_path):
    code = """
import os, sys
class Looking:
    def find_spec(self, name, path=None, target=None):
        if name == "ray":
            settings = [os.environ.get(key) for key in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE")]
            print("ray:", *settings, file=sys.__stdout__, flush=True)
            os._exit(0)
sys.meta_path.insert(0, Looking())
from dse.cli import main
main()
"""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    asked = [sys.executable, "-c", code, *command, "--workers", "1"]
    found = subprocess.run(asked, cwd=tmp_path, env=own | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "ray: 0 token", found.stderr
