"""Killed drivers, nodes and workers, full disks and wrong directories: nothing is lost, and the answer stays the same.

Every Ray here is one of the tests' own, in processes of their own (``benchmarks/killing.py``), and ends with them. What
``benchmarks/chaos.py`` measures at full size is asserted here at a small one.
"""

import random
import resource
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from actors.limits import Limits
from benchmarks import killing
from benchmarks.killing import Kill, Run, difference, in_own_process
from dse.cli import main
from tests.codesign.test_exhaustive import TINY_MODEL

pytestmark = pytest.mark.slow

SMALL = ("--accelerators", 16, "--global-batch", 32, "--microbatch", "1,2", "--hbm-gb", "0.004,0.02,1")
WALK = ("--area-budget", 1.8959, "--search", "hysteresis", "--hysteresis-rule", "no-new-best", "--hysteresis", 10)
PROOF = ("--area-budget", "1.7159", "--tensor-parallel", "1", "--pareto")
SEED = 20

DEATHS = Limits().deaths - 1
"""Of workers, so that none of what they work on is given up."""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return path


@pytest.fixture(scope="module")
def undisturbed(model_file, tmp_path_factory):
    """The run of some arguments that nothing disturbs, in this process; each is made once."""
    made = {}

    def run(*arguments):
        if arguments not in made:
            made[arguments] = Run(tmp_path_factory.mktemp("runs") / "undisturbed", "codesign", model_file, *arguments)
            finish_here(made[arguments])
        return made[arguments]

    return run


def finish_here(run):
    """Begin or continue a run that nothing disturbs, in this process: to start another one takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in run.own.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["dse", *run.command("--workers", 0)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code


def run_of(tmp_path, model_file, *arguments):
    return Run(tmp_path / "disturbed", "codesign", model_file, *arguments)


@pytest.mark.parametrize(("asked", "early"), [(WALK, 1), (PROOF, 0)], ids=["hysteresis", "exhaustive"])
def test_killed_drivers_lose_and_repeat_nothing(undisturbed, model_file, tmp_path, asked, early):
    """``early``: kills while the driver's Ray starts, before there is a search of either kind."""
    sound = undisturbed(*SMALL, *asked)
    draw = random.Random(SEED)
    run = run_of(tmp_path, model_file, *SMALL, *asked)
    # The last one comes amid the search: a driver goes no farther than a quarter of it.
    held = {"program": ("tests.actors.held", sound.lines() // 4)}
    kills = [run.killed(0, draw.uniform(1, 4), "--workers", 2, **held) for _ in range(early)]
    kills.append(run.killed(draw.uniform(0.01, 0.2) * sound.lines(), draw.uniform(0, 0.3), "--workers", 2, **held))
    assert all(isinstance(kill, Kill) for kill in kills), "the run ended before it was killed"
    code, faults = run.finish("--workers", 2)
    assert code == 0, faults
    found = difference(run, sound, kills)
    assert (found.lost, found.repeated, found.changed, found.unasked) == (0, 0, 0, 0)
    assert found.same_result
    assert kills[-1].keys, "nothing was finished before the last kill"
    assert kills[-1].processes > 3, "there was no Ray to leave behind"
    assert {kill.left for kill in kills} == {()}


def test_a_killed_node_is_replaced():
    often = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    # Long items: a driver that waits for its turn must not come so late that the worker has nothing to do when it dies.
    found = in_own_process("node_killed", items=60, item_s=0.3, system=often)
    count = len(found["arrived"])
    assert count >= 60
    assert found["nodes_before"] == 2
    assert found["outcomes"] == [-item for item in range(count)]
    assert sorted(found["arrived"]) == list(range(count))
    assert any("a worker died under" in text for text in found["heard"])


def test_actors_killed_again_and_again():
    found = in_own_process("actors_killed", items=200, item_s=0.05, period_s=2.0, seed=SEED, most=DEATHS)
    assert found["kills"] >= 2
    assert found["outcomes"] == [-item for item in range(200)]
    assert sorted(found["arrived"]) == list(range(200))


def test_trials_killed_again_and_again(model_file):
    options = {"models": [str(model_file)], "accelerators": 16, "global_batch": 32, "microbatch": "1"}
    options |= {"hbm_gb": "0.004,0.02,1", "area_budget": "1.7159", "tensor_parallel": "1"}
    asked = {"options": options, "level": 2, "each_s": 0.1, "period_s": 4.0, "seed": SEED, "most": DEATHS}
    found = in_own_process("trials_killed", **asked)
    assert found["kills"] >= 2
    assert found["same_answer"]
    assert (found["missing"], found["failed"]) == (0, [])


QUICK = ("--area-budget", "1.7159")


def limited(file_bytes):
    """Makes a process one in which no file can grow beyond so many bytes, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def fault_of(code, printed):
    """The one line that a refused command prints."""
    assert code == 2, printed
    (line,) = printed.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_full_disk_ends_the_run_and_keeps_what_is_recorded(undisturbed, model_file, tmp_path):
    sound = undisturbed(*SMALL, *QUICK)
    run = run_of(tmp_path, model_file, *SMALL, *QUICK)
    description, journal = ((sound.out / name).stat().st_size for name in ("run.yaml", "journal.jsonl"))
    assert description < journal
    refused = run.finish("--workers", 0, preexec_fn=limited((description + journal) // 2))
    assert str(run.out / "journal.jsonl") in fault_of(*refused)
    kept = run.journal()
    assert 0 < len(kept) < sound.lines()
    finish_here(run)
    assert run.journal()[: len(kept)] == kept
    found = difference(run, sound, ())
    assert (found.lost, found.repeated, found.changed, found.unasked, found.ahead) == (0, 0, 0, 0, 0)
    assert found.same_result


def test_a_disk_without_room_for_the_report_is_one_line_too(undisturbed, model_file, tmp_path):
    sound = undisturbed(*SMALL, *QUICK)
    run = run_of(tmp_path, model_file, *SMALL, *QUICK)
    journal, report = ((sound.out / name).stat().st_size for name in ("journal.jsonl", "report.html"))
    assert journal < report
    refused = run.finish("--workers", 0, preexec_fn=limited(journal))
    assert str(run.out) in fault_of(*refused)
    finish_here(run)
    assert run.result() == sound.result()
    assert (run.out / "report.html").exists()


def test_directories_that_are_no_place_for_a_run(dse, model_file, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for out in (tmp_path / "notes.txt", tmp_path / "notes.txt" / "run", tmp_path / "full", "/proc/run"):
        refused = dse("codesign", model_file, *SMALL, *QUICK, "--workers", 0, "--out", out)
        assert str(out) in fault_of(refused.code, refused.err)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"]


def test_a_driver_that_was_killed_while_it_wrote_run_yaml_leaves_no_foreign_directory(dse, model_file, tmp_path):
    (tmp_path / ".run.yaml.4711").write_text("command: co")
    done = dse("codesign", model_file, *SMALL, *QUICK, "--workers", 0, "--out", tmp_path, "--resume", "--quiet")
    assert done.code == 0, done.err


def test_a_journal_that_cannot_be_opened_is_named(dse, model_file, tmp_path):
    asked = ("codesign", model_file, *SMALL, *QUICK, "--workers", 0, "--out", tmp_path / "run")
    assert dse(*asked, "--time-limit", "0.001").code == 3
    (tmp_path / "run" / "journal.jsonl").unlink()
    (tmp_path / "run" / "journal.jsonl").mkdir()
    refused = dse(*asked, "--resume")
    assert str(tmp_path / "run" / "journal.jsonl") in fault_of(refused.code, refused.err)


def test_a_second_process_on_a_run_is_refused_and_the_first_goes_on(dse, undisturbed, model_file, tmp_path):
    sound = undisturbed(*SMALL, *WALK)
    run = run_of(tmp_path, model_file, *SMALL, *WALK)
    first = run.start("--workers", 0)
    try:
        while first.poll() is None and not run.lines():
            time.sleep(0.05)
        refused = dse("codesign", model_file, *SMALL, *WALK, "--workers", 0, "--out", run.out, "--resume")
        assert "another process" in fault_of(refused.code, refused.err)
        assert first.wait(300) == 0
    finally:
        first.kill()
    assert difference(run, sound, ()).lost == 0
    assert run.result() == sound.result()


@contextmanager
def listener():
    """A port of this machine that takes connections and never says a word."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(50)
        yield f"127.0.0.1:{mute.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_that_answers_nothing_is_refused(dse, model_file, tmp_path, scheme):
    with listener() as mute:
        where = ("--workers", 2, "--address", scheme + mute, "--out", tmp_path / "run")
        refused = dse("codesign", model_file, *SMALL, *QUICK, *where)
    line = fault_of(refused.code, refused.err)
    assert "--address" in line
    assert mute in line


def test_what_does_not_end_by_itself_is_seen_and_ended(monkeypatch):
    monkeypatch.setattr(killing, "GRACE_S", 0.5)
    parent = subprocess.Popen([sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '600'])"])
    started = set()
    while not any(each.title.startswith("sleep") for each in started):
        time.sleep(0.05)
        started = killing.descendants(parent.pid)
    parent.kill()
    parent.wait()
    left, _ = killing.left_after_a_while(started)
    assert [process.title.split()[0] for process in left] == ["sleep"]
    while killing.alive(started):  # a process takes a moment to die
        time.sleep(0.05)
