"""A Ray of this process's own: on this machine alone, closed to its other users, and gone with the process."""

import logging
import os
import secrets
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import ray

from actors.before_ray import expect_private_ray
from actors.environment import environment, start_ray
from actors.worker_kind import WorkerKind
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import Notice, silent_notice

_OBJECT_STORE_BYTES = 150 * 1024**2
"""Results are small; the default store would claim 30 % of the machine's memory."""


class PrivateRay:
    """An ordinary local instance of Ray, which never attaches to a cluster that happens to be running.

    Ray opens the folder of its session to everybody, so it is in a folder that is ours alone, next to the token
    that its processes ask for.

    Args:
        kinds: what it has CPUs and GPUs for.
        notice: receives a warning for people where it does not ask for a token.
    """

    def __init__(self, kinds: Sequence[WorkerKind], notice: Notice = silent_notice) -> None:
        if not asks_for_token():
            notice(
                f"Ray {ray.__version__} starts without a token here, so other users of this machine can run code in "
                "it under your name; ray>=2.59 requires a token"
            )
        self._starter = ThreadPoolExecutor(1)
        # Paths of Unix sockets are limited to about 100 characters, so the folder has a short one.
        self.folder = OwnedFolder("dse-", Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir()))
        try:
            self._start(kinds)
        except BaseException:
            # Nobody else would end what has started or remove the folder.
            self.close()
            raise

    def _start(self, kinds: Sequence[WorkerKind]) -> None:
        token = self.folder.path / "token"
        with os.fdopen(os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(_token())
        settings = {"RAY_TMPDIR": str(self.folder.path), "RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": str(token)}
        start = partial(
            ray.init,
            address="local",
            num_cpus=int(sum(kind.count * kind.cpus for kind in kinds)),
            num_gpus=int(sum(kind.count * kind.gpus for kind in kinds)),
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        with environment({**settings, **expect_private_ray()}):
            start_ray(start, self._starter)

    def close(self) -> None:
        """End all of its processes, and remove its files."""
        ray.shutdown()
        self._starter.shutdown()
        self.folder.close()


def asks_for_token() -> bool:
    """Whether a private Ray of this process asks for its token."""
    version = tuple(map(int, ray.__version__.split(".")[:2]))
    default = "token" if version >= (2, 59) else "disabled"
    mode = {**os.environ, **expect_private_ray()}.get("RAY_AUTH_MODE", default)
    return version >= (2, 52) and mode == "token"


@cache
def _token() -> str:
    """The token of this process's private instances: Ray reads it once per process."""
    return secrets.token_hex(32)
