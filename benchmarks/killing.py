"""Kills drivers, nodes and workers of runs, in processes and Ray clusters of its own, and says what became of the runs.

For ``benchmarks/chaos.py`` and, at a smaller size, ``tests/actors/test_chaos.py``. Linux only: processes are found in
``/proc``, and only those that were started here are ended, by their number.
"""

import json
import math
import os
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from benchmarks.process_table import alive, descendants, end, processes
from benchmarks.slow_work import Doomed, Slow, Slowed, described, nodes_of

ROOT = Path(__file__).parents[1]
PATIENCE_S = 600
"""How long anything is waited for: only a hang lasts so long."""

GRACE_S = 60
"""How long the processes of a killed driver may take to end."""

AGENTS = re.compile(r"ray::(Dashboard|RuntimeEnv)Agent|/agent\.py|/agent/main\.py")
"""By title or command: they end about 61 s after the rest, asking for the dead head node until then. Not waited for."""


def left_after_a_while(started):
    """(those of ``started`` that do not end by themselves, :data:`AGENTS` aside; seconds until none ran); all end."""
    begun, awaited = time.monotonic(), {each for each in started if not AGENTS.search(each.title)}
    while (left := alive(awaited)) and time.monotonic() - begun < GRACE_S:
        time.sleep(0.1)
    seconds = time.monotonic() - begun
    end(started)
    return left, seconds


def in_own_process(name, **arguments):
    """What a function of :data:`FUNCTIONS` returns, as JSON types, in a process of its own, in which no Ray runs yet.

    Ray finds no other cluster there: it has a folder and a token of its own. Nothing that was started outlives this.
    """
    command = [sys.executable, "-m", "benchmarks.killing", name, json.dumps(arguments)]
    folder, started = tempfile.mkdtemp(prefix="dse-", dir="/tmp"), set()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = os.environ | token | {"RAY_TMPDIR": folder, "TMPDIR": folder}
    answer, faults = Path(folder) / "answer.json", Path(folder) / "faults.txt"
    try:
        with answer.open("w") as out, faults.open("w") as err:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err)
            deadline_s = time.monotonic() + PATIENCE_S
            while process.poll() is None and time.monotonic() < deadline_s:
                started |= descendants(process.pid)
                time.sleep(0.5)
        if process.poll() != 0:
            raise RuntimeError(f"{name} ended with {process.poll()}: {faults.read_text()[-4000:]}")
        return json.loads(answer.read_text().splitlines()[-1])
    finally:
        process.kill()
        process.wait()
        left_after_a_while(started)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Kill:
    """The death of a driver: what the journal held, and what became of the processes that it had started."""

    keys: tuple[str, ...]
    processes: int
    left: tuple[str, ...]
    gone_s: float


class Run:
    """``dse`` with a run directory, in processes that are killed; with a cache and temporary files of its own."""

    def __init__(self, folder, *command):
        self.out = folder / "run"
        self._command = [*map(str, command), "--out", str(self.out), "--quiet"]
        self._printed = folder / "printed.txt"
        folder.mkdir()
        self.own = {"DSE_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder)}

    def command(self, *arguments):
        """What follows ``dse`` to begin or continue the run; ``arguments``: where its work is done."""
        return [*self._command, *map(str, arguments), *(["--resume"] if self.out.exists() else [])]

    def start(self, *arguments, program=("dse",), **settings):
        """A process that begins or continues the run; ``arguments``: where its work is done; ``program``: a module, and
        its own arguments.
        """
        command = [sys.executable, "-m", *map(str, program), *self.command(*arguments)]
        with self._printed.open("w") as printed:
            return subprocess.Popen(
                command, cwd=ROOT, env=os.environ | self.own, stdout=printed, stderr=printed, **settings
            )

    def finish(self, *arguments, **settings):
        """(exit code, what it printed) of a process that begins or continues the run and is let alone."""
        process = self.start(*arguments, **settings)
        try:
            process.wait(PATIENCE_S)
        finally:
            end(descendants(process.pid))
            process.kill()
        return process.wait(), self._printed.read_text()

    def killed(self, more, delay_s, *arguments, **settings):
        """Begin or continue, and kill the driver so long after so many ``more`` lines; None where it ended before."""
        lines, process = self.lines() + more, self.start(*arguments, **settings)
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while process.poll() is None and self.lines() < lines:
                if time.monotonic() > deadline_s:
                    there = f"{self.lines()} of {lines} lines after {PATIENCE_S} s"
                    raise RuntimeError(f"{there}: {self._printed.read_text()}")
                time.sleep(0.05)
            time.sleep(delay_s)
            return None if process.poll() is not None else self._kill(process)
        finally:
            end(descendants(process.pid))
            process.kill()
            process.wait()

    def _kill(self, process):
        started = descendants(process.pid)
        process.kill()
        process.wait()
        folders = {folder for each in started for folder in re.findall(r"/tmp/dse-[a-z0-9_]+", each.title)}
        started |= {each for each in processes().values() if any(folder in each.title for folder in folders)}
        left, gone_s = left_after_a_while(started)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        titles = tuple(sorted(each.title for each in left))
        return Kill(tuple(key for key, _ in self.journal()), len(started), titles, gone_s)

    def lines(self):
        """Finished lines of the journal."""
        path = self.out / "journal.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def journal(self):
        """The (key, value) of every finished line, in their order."""
        text = (self.out / "journal.jsonl").read_text() if self.lines() else ""
        entries = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [(entry["key"], entry["value"]) for entry in entries]

    def result(self):
        """The result file without its seconds."""
        document = json.loads((self.out / "result.json").read_text())
        return {key: value for key, value in document.items() if key not in ("seconds", "seal")}


@dataclass(frozen=True)
class Difference:
    """What tells the journal and the result of a disturbed run from those of an undisturbed one, as counts of entries.

    ``lost``: missing, or there before a kill and not after it; ``repeated``: there more than once; ``changed``: with
    another value; ``unasked``: neither in the undisturbed run nor ahead of the stopping point; ``ahead``: beyond that
    point, which is not a fault; ``same_result``: whether the result files agree but for their seconds.
    """

    lost: int
    repeated: int
    changed: int
    unasked: int
    ahead: int
    same_result: bool


def difference(disturbed, undisturbed, kills):
    """The :class:`Difference` between two runs of one command, the first of which has seen ``kills``."""
    walked = counted_architectures(undisturbed.result())
    keys = [key for key, _ in disturbed.journal()]
    entries, wanted = dict(disturbed.journal()), dict(undisturbed.journal())
    ahead = {key for key, value in (entries | wanted).items() if is_ahead(value, walked)}
    forgotten = {key for kill in kills for place, key in enumerate(kill.keys) if keys[place : place + 1] != [key]}
    return Difference(
        lost=len((wanted.keys() - ahead - entries.keys()) | forgotten),
        repeated=len(keys) - len(entries),
        changed=sum(entries[key] != wanted[key] for key in entries.keys() & wanted.keys()),
        unasked=len(entries.keys() - wanted.keys() - ahead),
        ahead=len(entries.keys() & ahead),
        same_result=disturbed.result() == undisturbed.result(),
    )


def counted_architectures(result):
    """The architectures that a walk counts, from its definition: the first ones in the order of area groups."""
    from dse.codesign.options import CodesignOptions
    from dse.codesign.search.hysteresis import area_groups

    options = CodesignOptions.from_document(result["settings"], "result.json", "settings")
    order = [index for group in area_groups(options.problem().machines().area_mm2) for index in group]
    return set(order[: result["metrics"]["architectures_evaluated"]])


def is_ahead(value, walked):
    """Whether a journal entry is an evaluation of a sweep beyond its stopping point."""
    from dse.codesign.search.sweep import SWEEP_NODES

    return isinstance(value, dict) and value.get("nodes") == SWEEP_NODES and value["architecture"] not in walked


def node_killed(items, item_s, system):
    """A node is killed amid an item once a third of at least so many has arrived, and another one added; the map goes
    on until that works. ``system``: Ray's settings of that name (health checks).
    """
    from ray.cluster_utils import Cluster

    from actors.ray_executor import RayExecutor

    small = {"num_cpus": 1, "object_store_memory": 80 * 1024**2}
    spare = {"include_dashboard": False, "no_monitor": True}
    cluster = Cluster(True, head_node_args={"_system_config": system, **small, **spare})
    folder = Path(tempfile.mkdtemp())
    arrived, heard, moment = [], [], {}

    def more():
        yield from range(items)
        item = items
        while "recovered" not in moment:
            yield item
            item += 1

    def keep(done):
        arrived.extend(done)
        if "killed" not in moment and len(arrived) > items / 3 and nodes_of(arrived) == known:
            (folder / "hold").touch()
        if "killed" not in moment and (folder / "held").exists():
            # By this thread: Ray's processes end with the thread that has started them.
            cluster.remove_node(victim, allow_graceful=False)
            moment["killed"] = time.monotonic()
            cluster.add_node(wait=False, **small)
        elif "killed" in moment and any(nodes_of(done) - known):
            moment.setdefault("recovered", time.monotonic())

    try:
        with RayExecutor(2, address=cluster.address, notice=heard.append) as executor:
            # Only now: this process would have joined either.
            victim = cluster.add_node(**small)
            known = {victim.node_id, cluster.head_node.node_id}
            function = Doomed(item_s, victim.node_id, folder)
            outcomes = [described(each) for each in executor.outcomes(function, more(), arrived=keep)]
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    recovered_s = moment["recovered"] - moment["killed"]
    done = [item for item, _ in arrived]
    return {"outcomes": outcomes, "arrived": done, "recovered_s": recovered_s, "heard": heard}


class Killer:
    """Kills a random one of this process's Ray workers again and again; ``title``: a pattern of its actor and method.

    ``most``: how often at most. Fewer than an item may cost workers: no item is given up, however slow the machine is.
    """

    def __init__(self, title, period_s, seed, most=math.inf):
        self.kills = 0
        self._title, self._period_s, self._random, self._most = title, period_s, random.Random(seed), most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._kill, daemon=True)

    def _kill(self):
        while self.kills < self._most and not self._over.wait(self._period_s):
            workers = [each for each in descendants(os.getpid()) if re.match(self._title, each.title)]
            if workers:
                end([self._random.choice(sorted(workers, key=lambda each: each.pid))])
                self.kills += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def actors_killed(executor, items, item_s, period_s, seed, most=math.inf):
    """Plain actors that are killed during a map over so many items, and more until there were as many kills as there
    may be at ``most``; no others of this process may be at work.
    """
    arrived = []
    # Amid a call: the death of one that is still starting would cost nothing.
    with Killer(r"ray::Worker\.apply", period_s, seed, most) as killer:

        def asked():
            yield from range(items)
            yield from takewhile(lambda _: killer.kills < most < math.inf, count(items))

        begun = time.monotonic()
        outcomes = [described(each) for each in executor.outcomes(Slow(item_s), asked(), arrived=arrived.extend)]
        seconds = time.monotonic() - begun
    return {"outcomes": outcomes, "arrived": [item for item, _ in arrived], "kills": killer.kills, "seconds": seconds}


def trials_killed(executor, options, level, each_s, period_s, seed, most=math.inf):
    """Tune's actors that are killed during a walk until no new best in ``level`` groups, on the Ray of ``executor``."""
    from actors import tune_sweep
    from dse.codesign.context import SearchContext
    from dse.codesign.options import CodesignOptions
    from dse.codesign.search.hysteresis import AreaWalk, NoNewBestRule, search
    from dse.codesign.search.sweep import Sweep
    from dse.run.executor import InProcessExecutor
    from dse.run.progress import never_stop

    problem = CodesignOptions.from_document(options, "options", "").problem()
    machines, known, store = problem.machines(), {}, {}
    wanted = search(SearchContext(problem, machines, InProcessExecutor(), known), level=level, rule=NoNewBestRule)
    context = SearchContext(problem, machines, executor, store)
    sweep = Sweep(context, AreaWalk(machines.area_mm2, NoNewBestRule(level)))
    # A trial amid a part: one that is still starting is left alone, or none might ever start.
    with Killer(r"ray::\w+\.train", period_s, seed, most) as killer:
        begun = time.monotonic()
        tune_sweep.run(tune_sweep.SweepSearcher(sweep, 2, never_stop), Slowed(sweep.evaluators, each_s))
        seconds = time.monotonic() - begun
    outcome = sweep.outcome(None)
    counted = [job_task for job_task in known if job_task.task.index in wanted.evaluated]
    return {
        "evaluated": len(wanted.evaluated),
        "same_answer": outcome == wanted,
        "missing": sum(store.get(job_task) != known[job_task] for job_task in counted),
        "failed": list(context.failures.values()),
        "kills": killer.kills,
        "seconds": seconds,
    }


def on_own_ray(function):
    """``function`` of an executor with two workers on a Ray of its own."""

    def run(**arguments):
        from actors.ray_executor import RayExecutor

        with RayExecutor(2) as executor:
            return function(executor, **arguments)

    return run


FUNCTIONS = {
    "node_killed": node_killed,
    "actors_killed": on_own_ray(actors_killed),
    "trials_killed": on_own_ray(trials_killed),
}

if __name__ == "__main__":
    print(json.dumps(FUNCTIONS[sys.argv[1]](**json.loads(sys.argv[2]))))
