"""Killed drivers, nodes and workers, full disks and wrong directories: nothing is lost, and the answer stays the same.

The Ray of a driver or node that is killed is one of the tests' own, in processes of their own
(``benchmarks/killing.py``), and ends with them; workers are killed in the Ray of the test session. What
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

from benchmarks import killing
from benchmarks.killing import Kill, Run, difference, in_own_process
from dse.cli import main
from tests.codesign.test_exhaustive import TINY_MODEL

pytestmark = pytest.mark.slow

SMALL = ("--accelerators", 16, "--global-batch", 32, "--microbatch", 1, "--hbm-gb", 1, "--tensor-parallel", 1)
WALK = ("--area-budget", 1.7959, "--search", "hysteresis", "--hysteresis-rule", "no-new-best", "--hysteresis", 5)
"""77 architectures of 178, each journalled."""

PROOF = ("--area-budget", 1.7159, "--pareto")
"""62 architectures of 73, each journalled."""

SEED = 20

DEATHS = 2
"""Of workers: fewer than cost what they work on (:class:`actors.limits.Limits`), so that nothing is given up."""


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
    with own_settings(run), pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


@contextmanager
def own_settings(run):
    """The command line and environment of a run, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in run.own.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["dse", *run.command("--workers", 0)])
        yield


def run_of(tmp_path, model_file, *arguments):
    return Run(tmp_path / "disturbed", "codesign", model_file, *arguments)


def assert_lost_and_repeated_nothing(run, sound, kills):
    differs = difference(run, sound, kills)
    assert (differs.lost, differs.repeated, differs.changed, differs.unasked) == (0, 0, 0, 0)
    assert differs.same_result


@pytest.mark.parametrize(("asked", "early"), [(WALK, 0), (PROOF, 1)], ids=["hysteresis", "exhaustive"])
def test_killed_drivers_lose_and_repeat_nothing(undisturbed, model_file, tmp_path, asked, early):
    """``early``: kills while the driver's Ray starts, before there is a search of either kind."""
    sound = undisturbed(*SMALL, *asked)
    draw = random.Random(SEED)
    run = run_of(tmp_path, model_file, *SMALL, *asked)
    # The last one comes amid the search: a driver goes no farther than a quarter of it.
    held = {"program": ("tests.actors.held", sound.lines() // 4, tmp_path / "never")}
    kills = [run.killed(0, draw.uniform(1, 4), "--workers", 2, **held) for _ in range(early)]
    kills.append(run.killed(draw.uniform(0.01, 0.2) * sound.lines(), draw.uniform(0, 0.3), "--workers", 2, **held))
    assert all(isinstance(kill, Kill) for kill in kills), "the run ended before it was killed"
    finish_here(run)
    assert_lost_and_repeated_nothing(run, sound, kills)
    assert kills[-1].keys, "nothing was finished before the last kill"
    assert kills[-1].processes > 3, "there was no Ray to leave behind"
    assert {kill.left for kill in kills} == {()}


@pytest.mark.ray_interface
def test_a_killed_node_is_replaced():
    often = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    found = in_own_process("node_killed", items=20, item_s=0.05, system=often)
    count = len(found["arrived"])
    assert count >= 20
    assert found["outcomes"] == [-item for item in range(count)]
    assert sorted(found["arrived"]) == list(range(count))
    assert any("a worker died on" in text for text in found["heard"])


def test_actors_killed_again_and_again(ray_executor):
    found = killing.actors_killed(ray_executor, items=40, item_s=0.05, period_s=0.5, seed=SEED, most=DEATHS)
    count = len(found["arrived"])
    assert found["kills"] == DEATHS
    assert count >= 40
    assert found["outcomes"] == [-item for item in range(count)]
    assert sorted(found["arrived"]) == list(range(count))


def test_trials_killed_again_and_again(model_file, ray_executor):
    ray_executor.release()
    options = {"models": [str(model_file)], "accelerators": 16, "global_batch": 32, "microbatch": "1"}
    options |= {"hbm_gb": "1", "area_budget": "1.7159", "tensor_parallel": "1"}
    found = killing.trials_killed(ray_executor, options, level=3, each_s=0.15, period_s=1.0, seed=SEED, most=DEATHS)
    assert found["kills"] == DEATHS
    assert found["same_answer"]
    assert (found["missing"], found["failed"]) == (0, [])


QUICK = ("--area-budget", "1.7159")


@contextmanager
def limited(file_bytes):
    """Lets no file grow beyond so many bytes in this process, as on a full disk."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def fault_of(code, printed):
    """The one line that a refused command prints."""
    assert code == 2, printed
    (line,) = printed.splitlines()
    assert line.startswith("error: ")
    return line


def refused_for_want_of_room(run, file_bytes, capsys):
    """The one line that a run prints that cannot write larger files."""
    capsys.readouterr()
    with own_settings(run), pytest.raises(SystemExit) as ended, limited(file_bytes):
        main()
    return fault_of(ended.value.code, capsys.readouterr().err)


def test_a_full_disk_ends_the_run_and_keeps_what_is_recorded(undisturbed, model_file, tmp_path, capsys):
    sound = undisturbed(*SMALL, *PROOF)
    run = run_of(tmp_path, model_file, *SMALL, *PROOF)
    description, journal = ((sound.out / name).stat().st_size for name in ("run.yaml", "journal.jsonl"))
    assert description < journal
    line = refused_for_want_of_room(run, (description + journal) // 2, capsys)
    assert str(run.out / "journal.jsonl") in line
    recorded = run.journal()
    assert 0 < len(recorded) < sound.lines()
    finish_here(run)
    assert run.journal()[: len(recorded)] == recorded
    assert_lost_and_repeated_nothing(run, sound, ())


def test_a_disk_without_room_for_the_report_is_one_line_too(undisturbed, model_file, tmp_path, capsys):
    sound = undisturbed(*SMALL, *PROOF)
    run = run_of(tmp_path, model_file, *SMALL, *PROOF)
    journal, report = ((sound.out / name).stat().st_size for name in ("journal.jsonl", "report.html"))
    assert journal < report
    assert str(run.out) in refused_for_want_of_room(run, journal, capsys)
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
    sound = undisturbed(*SMALL, *PROOF)
    run = run_of(tmp_path, model_file, *SMALL, *PROOF)
    first = run.start("--workers", 0, program=("tests.actors.held", 1, tmp_path / "refused"))
    try:
        while first.poll() is None and not run.lines():
            time.sleep(0.05)
        refused = dse("codesign", model_file, *SMALL, *PROOF, "--workers", 0, "--out", run.out, "--resume")
        assert "another process" in fault_of(refused.code, refused.err)
        (tmp_path / "refused").touch()
        assert first.wait(300) == 0
    finally:
        first.kill()
    assert_lost_and_repeated_nothing(run, sound, ())


@contextmanager
def listener():
    """A port of this machine that takes connections and never says a word."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(50)
        yield f"127.0.0.1:{mute.getsockname()[1]}"


@pytest.mark.ray_interface
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_that_answers_nothing_is_refused(dse, model_file, tmp_path, monkeypatch, scheme):
    monkeypatch.setattr("actors.joining._TIMEOUT_S", 0.5)
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
