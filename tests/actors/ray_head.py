"""A head node of the tests' own: private ports, a private folder and a token, so that it meets no other Ray.

It ends by its own process id, and so does whatever it started.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from benchmarks import killing

PATIENCE_S = 600
"""How long anything is waited for: only a hang lasts so long."""


def wait_for(condition, what):
    """The first true value of ``condition``."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.2)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Job:
    """A job that ended: the exit code of ``ray job submit``, and what its entry point printed."""

    exit_code: int
    lines: list[str]


class Head:
    """A head node, and ``ray job`` with it."""

    def __init__(self, folder, checkout):
        self.folder, self.checkout = folder, checkout
        token, printed = folder / "token", folder / "head.txt"
        token.write_text("0123456789abcdef" * 4)
        others = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "FORCE_COLOR"))}
        self.environment = others | {
            "RAY_worker_niceness": "0",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
        }
        any_port = ("port", "dashboard-port", "dashboard-agent-listen-port", "min-worker-port", "max-worker-port")
        command = ["ray", "start", "--head", "--block", *(f"--{name}=0" for name in any_port), "--log-color=false"]
        command += [f"--ray-client-server-port={free_port()}", f"--temp-dir={folder}", "--include-dashboard=true"]
        # Without the autoscaler, which would have nothing to do, and the reader of logs, which nobody hears.
        command += ["--no-monitor", "--include-log-monitor=false"]
        command += ["--num-cpus=1", f"--object-store-memory={100 * 1024**2}", "--disable-usage-stats"]
        with printed.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=self.environment)

        def address():
            assert self.process.poll() is None, printed.read_text()
            found = re.search(r"http://127\.0\.0\.1:\d+", printed.read_text())
            return found and found.group()

        self.address = wait_for(address, "a head node")

    def end(self):
        """End the head and all that it started; what does not go by itself is killed."""
        started = killing.descendants(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        killing.end(started)

    def ray_job(self, verb, *arguments):
        """``ray job VERB …`` as a user types it."""
        return subprocess.run(
            ["ray", "job", verb, "--address", self.address, *map(str, arguments)],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def submit(self, name, *options_and_entry):
        """The exit code of ``ray job submit --working-dir . …`` of a job called ``name``."""
        answer = self.ray_job("submit", "--submission-id", name, "--working-dir", ".", *options_and_entry)
        assert "submitted successfully" in answer.stdout + answer.stderr, answer.stdout + answer.stderr
        return answer.returncode

    def dse(self, name, *arguments):
        """The job ``python -m dse … --address auto``, when it has ended."""
        exit_code = self.submit(name, "--", "python", "-m", "dse", *arguments, "--address", "auto")
        log = self.folder / "session_latest" / "logs" / f"job-driver-{name}.log"
        # Before what the job prints come lines of Ray's own.
        return Job(exit_code, log.read_text().partition("Running entrypoint for job")[2].splitlines()[1:])

    def asked(self, path, token, method="GET"):
        """What the head answers to ``ray job``, without the seconds that this takes to start."""
        asked = urllib.request.Request(
            f"{self.address}/api/jobs/{path}", headers={"Authorization": f"Bearer {token}"}, method=method
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    @property
    def token(self):
        """What the head wants to be shown."""
        return (self.folder / "token").read_text()

    def state(self, name):
        """SUCCEEDED, FAILED, STOPPED, …"""
        return self.asked(name, self.token)["status"]

    def stop(self, name):
        """As ``ray job stop`` does: ask for it, and wait until it has stopped."""
        assert self.asked(f"{name}/stop", self.token, "POST")["stopped"]
        wait_for(lambda: self.state(name) not in ("PENDING", "RUNNING"), "the end of a stopped job")
