"""What a Slurm cluster that loses nodes costs a job of ``deploy/slurm.sh``.

Claim: whatever a Slurm job loses, each evaluation is in its journal once, and its answer is that of one process.

Method. A real Slurm of this machine alone (Debian's ``slurm-wlm`` and ``munge``; daemons, ports and a folder of its
own), whose :data:`NODES` nodes differ by name alone. A job of two nodes runs a sweep of BERT-large and loses (1)
nothing, (2) its second node, (3) its time, (4) its first node, on which its driver runs. A node is lost when all its
processes, the daemon first, are killed amid the run. The sweep in one process without Slurm is the baseline. *Seconds*
are those from the loss to the next finished evaluations; Slurm itself notices a lost node after :data:`NOTICE_S`, and
lets a job that is queued again wait for about two minutes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.killing import PATIENCE_S, ROOT, Run, difference
from benchmarks.process_table import alive, descendants, end, processes
from benchmarks.recording import Record, Results, parser_of

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
NODES, CPUS = 3, 2
NOTICE_S = 10
SWEEP = ("codesign", "bert-large", "--search", "hysteresis", "--hysteresis-rule", "no-new-best", "--hysteresis", "300")
LINES = 100
"""Finished evaluations before something is lost."""

RECORD = Record("slurm", tables={"main": ("a job loses", "seconds", "lost", "twice", "changed", "answer")})

CONFIGURATION = """ClusterName=dse
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout={notice_s}
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def is_installed() -> bool:
    """Whether this machine has Slurm."""
    return all(shutil.which(program, path=_path()) for program in PROGRAMS)


def _path() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"))


class Slurm:
    """A Slurm whose nodes n1, n2, … are all this machine; ends with the context, with all that it started."""

    def __init__(self, nodes: int = NODES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dse-slurm-", dir="/tmp"))
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _path()}
        self._nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Slurm":
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        (self.folder / "state").mkdir()
        port = 20_000 + os.getpid() % 10_000
        where = f"NodeHostname=localhost NodeAddr=127.0.0.1 CPUs={CPUS}"
        lines = [f"NodeName={name} {where} Port={port + at}" for at, name in enumerate(self._nodes, 1)]
        user = os.environ.get("USER") or "root"
        text = CONFIGURATION.format(port=port, user=user, folder=self.folder, notice_s=NOTICE_S, nodes="\n".join(lines))
        (self.folder / "slurm.conf").write_text(text)
        files = {name: f"--{name}-file={self.folder / f'munge.{name}'}" for name in ("key", "pid", "log", "seed")}
        self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={self.folder}/munge.sock", *files.values()
        )
        self._until(lambda: (self.folder / "munge.sock").exists(), "munged")
        self._start("slurmctld", "slurmctld", "-D")
        for name in self._nodes:
            (self.folder / f"spool-{name}").mkdir()
            self._start(name, "slurmd", "-D", "-N", name)
        self._until(lambda: self._said("sinfo", "-h", "-o", "%T %D") == f"idle {len(self._nodes)}", "idle nodes")
        return self

    def __exit__(self, *_: object) -> None:
        for process in processes().values():
            if str(self.folder) in _environment(process.pid):
                end({process})
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.txt").open("wb") as log:
            self._daemons[name] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def _said(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout.strip()

    @staticmethod
    def _until(condition: Callable[[], object], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{what}: not within {PATIENCE_S} s")
            time.sleep(0.1)

    def submit(self, run: Run, nodes: int) -> str:
        """The number of a job that begins ``run`` on so many nodes."""
        script = str(ROOT / "deploy" / "slurm.sh")
        log = f"--output={run.out.parent / 'job.txt'}"
        command = ["sbatch", "--parsable", f"--nodes={nodes}", log, script, *run.command()]
        where, environment = run.out.parent, self.environment | run.own
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """RUNNING, COMPLETED, …"""
        return self._said("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")

    def ended(self, job: str) -> str:
        """The state in which the job ends."""
        self._until(lambda: self.state(job) in ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"), job)
        return self.state(job)

    def nodes_of(self, job: str) -> list[str]:
        """The nodes of a running job; the driver is on the first."""
        return self._said("scontrol", "show", "hostnames", self._said("squeue", "-h", "-j", job, "-o", "%N")).split()

    def lose(self, node: str) -> None:
        """Kill the daemon of a node, and all that runs there."""
        self._daemons[node].kill()
        steps = {each for each in processes().values() if f"SLURMD_NODENAME={node}\0" in _environment(each.pid)}
        started = {child for step in steps for child in descendants(step.pid)}
        keepers = {each for each in processes().values() if each.pid in {step.parent for step in steps}}
        end({each for each in keepers if "slurmstepd" in each.title} | steps | started)
        self._until(lambda: not alive(steps), node)

    def end_time(self, job: str) -> None:
        """What Slurm sends two minutes before the time of a job is up."""
        subprocess.run(["scancel", "--batch", "--signal=USR1", job], env=self.environment, check=True)


def _environment(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def measured(slurm: Slurm, folder: Path, baseline: Run, loses: str | None, lines: int, sweep=SWEEP):
    """One row: a job that loses something after so many lines."""
    run = Run(folder, *sweep)
    job = slurm.submit(run, 2)
    seconds = None
    if loses is not None:
        slurm._until(lambda: run.lines() >= lines, f"{lines} lines")
        nodes = slurm.nodes_of(job)
        lost_s = time.monotonic()
        {"its second node": lambda: slurm.lose(nodes[1]), "its first node": lambda: slurm.lose(nodes[0]),
         "its time": lambda: slurm.end_time(job)}[loses]()  # fmt: skip
        at_loss = run.lines()
        slurm._until(lambda: run.lines() > at_loss + 20, "the next evaluations")
        seconds = f"{time.monotonic() - lost_s:.0f}"
    assert slurm.ended(job) == "COMPLETED", (folder / "job.txt").read_text()
    found = difference(run, baseline, [])
    answer = "the same" if found.same_result else "another"
    return loses or "nothing", seconds, found.lost, found.repeated, found.changed + found.unasked, answer


def main() -> None:
    """The table."""
    arguments = parser_of(__doc__).parse_args()
    results = Results(RECORD)
    folder = Path(tempfile.mkdtemp(prefix="dse-runs-", dir="/tmp"))
    try:
        baseline = Run(folder / "baseline", *SWEEP)
        code, printed = baseline.finish("--workers", 0)
        assert code == 0, printed
        for at, loses in enumerate((None, "its second node", "its time", "its first node")):
            with Slurm() as slurm:
                results.row("main", *measured(slurm, folder / str(at), baseline, loses, LINES))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
