"""User code runs in a process of its own: whatever it does, its fate is one line."""

import os
import signal
import threading
import time

import pytest

from dse.graph.trace import Trace
from dse.importer.user_function import graph_of
from dse.importer.user_process import _server, ask
from hardware.inputs import InputError

pytest.importorskip("torch")

CODE = """
import atexit, ctypes, os, signal, sys, threading, time
from pathlib import Path
import torch

def net():
    return torch.nn.Linear(8, 8), torch.randn(1, 8)

def exits():
    os._exit(0)

def leaves():
    sys.exit(0)

def faults():
    ctypes.string_at(0)

def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def interrupts():
    raise KeyboardInterrupt

def writes():
    os.write(1, b"to the descriptor\\n")
    print("to the stream")
    atexit.register(print, "at exit")
    threading.Thread(target=time.sleep, args=(1e6,)).start()
    return net()

def forks():
    os.fork()
    return net()

def hangs():
    Path(__file__).with_name("pid.part").write_text(str(os.getpid()))
    Path(__file__).with_name("pid.part").rename(Path(__file__).with_name("pid"))
    while True:
        pass

def sees():
    assert os.environ["SEEN"] == "yes" and "here" in os.listdir()
    return net()
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "code.py"
    path.write_text(CODE, encoding="utf-8")
    return path


def traced(file, function):
    """The trace that the function gives, whatever it does."""
    request = {"kind": "trace", "path": str(file), "function": function, "name": function, "mode": "inference"}
    document, files = ask({**request, "sizes": {"microbatch": 1}})
    assert files == (file,)
    return graph_of(document, Trace, function)


FATES = {
    "exits": "exits: the code exited with status 0 before it returned",
    "leaves": "line 13: SystemExit: 0",
    "faults": "faults: the code was killed by SIGSEGV before it returned",
    "is_killed": "is_killed: the code was killed by SIGKILL (possibly out of memory) before",
}


@pytest.mark.parametrize("function", FATES)
def test_code_that_ends_its_process_is_one_line(file, capfd, function):
    with pytest.raises(InputError) as error:
        traced(file, function)
    assert str(error.value).startswith(f"{file}: {FATES[function]}")
    assert len(str(error.value).splitlines()) == 1
    assert capfd.readouterr().out == ""


def test_nothing_that_code_writes_is_on_stdout_and_its_threads_and_exit_handlers_end_with_it(file, capfd):
    trace = traced(file, "writes")
    assert [step.kind for step in trace.steps] == ["matmul"]
    written = capfd.readouterr()
    assert written.out == ""
    assert "code.py: to the stream" in written.err
    assert "at exit" not in written.err


def test_code_that_forks_gives_one_answer(file):
    assert traced(file, "forks") == traced(file, "forks")


def test_code_sees_folder_and_environment_of_the_call(file, tmp_path, monkeypatch):
    (tmp_path / "here").touch()
    traced(file, "net")
    monkeypatch.setenv("SEEN", "yes")
    monkeypatch.chdir(tmp_path)
    traced(file, "sees")


def test_no_file_of_the_folder_stands_in_for_a_module_of_the_server(file, tmp_path, monkeypatch):
    for name in ("json", "socket", "tempfile", "dse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    _server(os.getpid()).close()
    assert traced(file, "net").steps


def test_an_interrupt_in_the_code_interrupts_the_program(file):
    with pytest.raises(KeyboardInterrupt):
        traced(file, "interrupts")


def test_code_that_never_returns_ends_with_ctrl_c(file):
    marker = file.with_name("pid")

    def interrupt():
        while not marker.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test processes of pytest-xdist ignore it
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            traced(file, "hangs")
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    child = int(marker.read_text())
    while is_running(child):
        time.sleep(0.01)
    assert traced(file, "net").steps


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("change", [{"outputs": [99]}, {"steps": [["matmul"]]}, {"values": 3}])
def test_a_graph_that_is_none_is_refused(file, change):
    request = {"kind": "trace", "path": str(file), "function": "net", "name": "net", "mode": "inference"}
    document, _ = ask({**request, "sizes": {"microbatch": 1}})
    with pytest.raises(InputError, match=r"^net: "):
        graph_of({**document, **change}, Trace, "net")
