"""How this process joins an existing cluster, with an answer for people where it cannot."""

import logging
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc
import ray
from ray.exceptions import RayError

from actors.environment import start_ray
from hardware.inputs import fail, shown

_TIMEOUT_S = 10.0

_CHECK_ALIVE, _CLUSTER_INFO = "/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo"
"""Questions without consequences that need the token: to a head node, and to its server for Ray Client."""

_NEEDS_TOKEN = (
    "set RAY_AUTH_MODE=token, and the cluster's token in RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
)


class _RefusedError(Exception):
    """The cluster does not accept the token, or the lack of one."""


def join(address: str) -> None:
    """Join the cluster at ``address``.

    Raises:
        InputError: nothing answers there, or a cluster that wants another token, or one of another version of Ray or
            Python.
    """
    target = address.removeprefix("ray://")
    host, _, port = target.rpartition(":")
    try:
        if host and port.isdigit():
            _ask(host, int(port), _CLUSTER_INFO if address.startswith("ray://") else _CHECK_ALIVE)
        with ThreadPoolExecutor(1) as thread:
            start_ray(partial(ray.init, address=address, log_to_driver=False, logging_level=logging.ERROR), thread)
    except _RefusedError as error:
        raise fail("dse", "--address", address, f"refuses this process ({shown(str(error))}): {_NEEDS_TOKEN}") from None
    except (OSError, OverflowError, ValueError, RuntimeError, RayError) as error:
        reason = "no Ray cluster answers there"
        if "ersion mismatch" in str(error):
            reason = "the cluster must run the same versions of Ray and Python"
        elif isinstance(error, ConnectionError | RayError):
            # Ray says no more when it lacks the token, which cannot be asked of an address like "auto".
            reason += f", or it requires a token ({_NEEDS_TOKEN})"
        raise fail("dse", "--address", address, f"{reason}: {shown(str(error))}") from error


def _ask(host: str, port: int, question: str) -> None:
    """Ask ``question`` of the gRPC server there, with this process's token, if it has one.

    Ray itself tries for half a minute and more where nothing listens or the token differs, and forever where
    something listens that never answers. An answer of any other kind is left to Ray.

    Raises:
        OSError: nothing listens there, or what does is not a gRPC server.
        _RefusedError: the server does not accept the token, or the lack of one.
    """
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
        return
    token = _token()
    with grpc.insecure_channel(f"{host}:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        metadata = None if token is None else [("authorization", f"Bearer {token}")]
        answer = channel.unary_unary(question).future(b"", timeout=_TIMEOUT_S, metadata=metadata)
        code, details = answer.code(), answer.details()
    if code is grpc.StatusCode.UNAUTHENTICATED:
        raise _RefusedError(details)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        raise OSError(details)


def _token() -> str | None:
    """The token that Ray would take."""
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return None
    if token := os.environ.get("RAY_AUTH_TOKEN"):
        return token
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    with suppress(OSError):
        return (Path(path) if path else Path.home() / ".ray" / "auth_token").read_text().strip() or None
    return None
