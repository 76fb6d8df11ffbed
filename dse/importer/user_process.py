"""User code in its own process: however it ends, the error is one line, and stdout stays ours.

The first call starts a server, which loads PyTorch where the user's file needs it, and forks a child for each request.
The child runs the user's code, writes its answer to a file that it inherits, and ends at once, without waiting for
threads or running exit handlers. Its stdout is stderr. The server waits for the child, whatever ends it; it ends the
child and itself when this process closes the connection or is gone.
"""

import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from hardware.inputs import Fault, InputError, fail

_ROOT = Path(__file__).parents[2]
_POLL_S = 0.02
_STDERR = 2
"""The descriptor, regardless of ``sys.stderr``."""

_asking = threading.Lock()


def ask(request: Mapping[str, Any]) -> tuple[Any, tuple[Path, ...]]:
    """The graph that the user's function gives (:func:`dse.importer.user_function.answered`), and the user's files.

    What the code prints goes to stderr.

    Raises:
        InputError: what the importer refuses, or code that ended its process.
        KeyboardInterrupt: the code was interrupted.
    """
    surroundings = {"folder": os.getcwd(), "environment": dict(os.environ), "import_path": [*map(str, sys.path)]}
    with _asking:
        status, content = _server(os.getpid()).ask({**request, "surroundings": surroundings})
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT:
        raise KeyboardInterrupt
    if not content.endswith(b"\n"):
        raise fail(request["path"], request["function"], "", f"the code {_fate(status)} before it returned")
    answer = json.loads(content)
    sys.stderr.write(answer["printed"])
    if "faults" in answer:
        raise InputError(Fault(**fault) for fault in answer["faults"])
    return answer["graph"], tuple(Path(file) for file in answer["files"])


def _fate(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exited with status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    memory = " (possibly out of memory)" if number == signal.SIGKILL else ""
    return f"was killed by {name}{memory}"


class _Server:
    """The connection to a server that this process has started."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        program = (
            f"import sys; sys.path.append({str(_ROOT)!r}); "
            f"from dse.importer.user_process import serve; serve({its.fileno()})"
        )
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
            )
        self._connection = ours
        self._stream = ours.makefile("rwb")

    def ask(self, request: Mapping[str, Any]) -> tuple[int, bytes]:
        """(wait status of the child, what it has written)."""
        try:
            self._stream.write(json.dumps(request).encode() + b"\n")
            self._stream.flush()
            head = self._stream.readline().split()
            if len(head) == 2:
                return int(head[0]), self._stream.read(int(head[1]))
        except OSError:
            pass
        except BaseException:  # Ctrl-C: the answer is wanted no more
            self.close()
            raise
        self.close()
        ended = self._process.wait()  # the server itself was ended
        return -ended if ended < 0 else ended << 8, b""

    def close(self) -> None:
        """End the server, and the child that it waits for."""
        _server.cache_clear()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


@cache
def _server(process: int) -> _Server:
    """The server of this process; one that was forked from it starts its own."""
    del process
    return _Server()


# In the server ----------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Answer requests until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, it is for the child
    connection = socket.socket(fileno=descriptor)
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            request = json.loads(line)
            _load_what_is_needed(Path(request["path"]))
            with tempfile.TemporaryFile() as answer:
                child = os.fork()
                if not child:
                    _run(request, answer)
                status = _waited_for(child, connection)
                answer.seek(0)
                content = answer.read()
            stream.write(b"%d %d\n" % (status, len(content)) + content)
            stream.flush()


def _load_what_is_needed(path: Path) -> None:
    """Import what every child for the file would import."""
    importlib.import_module("dse.importer.user_function")
    with suppress(OSError, ImportError):
        if b"torch" in path.read_bytes():
            _trace_a_layer()


@cache
def _trace_a_layer() -> None:
    """Import what PyTorch imports when it is first used, which takes longer than PyTorch itself."""
    import torch

    from dse.importer.torch.module import trace_module

    with torch.device("meta"):
        trace_module(torch.nn.Linear(1, 1), torch.empty(1, 1), "layer", None)


def _waited_for(child: int, connection: socket.socket) -> int:
    """The wait status of the child, which is ended if nobody waits for its answer."""
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended:
        if select.select([connection], [], [], _POLL_S)[0]:  # closed: nothing is asked before the answer
            os.kill(child, signal.SIGKILL)
            os._exit(0)
        ended, status = os.waitpid(child, os.WNOHANG)
    return status


def _run(request: Mapping[str, Any], answer: IO[bytes]) -> None:
    """In the child: write the answer, and end the process."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        own, surroundings = os.getpid(), request["surroundings"]
        os.environ.clear()
        os.environ.update(surroundings["environment"])
        sys.path[:] = surroundings["import_path"]
        os.chdir(surroundings["folder"])
        from dse.importer.user_function import answered

        printed = io.StringIO()
        with redirect_stderr(printed):
            document = answered(request)
        if os.getpid() == own:  # and no process that the user's code has forked
            answer.write(json.dumps({**document, "printed": printed.getvalue()}).encode() + b"\n")
            answer.flush()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # a fault of this program: the user's are answers
        sys.excepthook(*sys.exc_info())
        os._exit(70)
    os._exit(0)
