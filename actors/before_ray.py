"""What must be set when Ray is imported and started, for a private instance that nobody else can reach."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from actors.environment import environment

_SIGNALS = MappingProxyType(
    {
        # Ray's own handler, which prints a stack, would end this process on a SIGTERM that comes while Ray starts.
        "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"
    }
)

_PRIVATE = MappingProxyType(
    {
        **_SIGNALS,
        # Ray then takes the loopback address for the address of this machine, on Linux as on macOS and Windows, and all
        # of its processes listen there alone.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # The default from 2.59 on; versions before 2.52 have no token.
        "RAY_AUTH_MODE": "token",
    }
)


@cache
def expect_private_ray() -> Mapping[str, str]:
    """Import Ray so that this process's private Ray listens on loopback only, and asks for its token.

    Returns:
        the environment variables that such a Ray must also be started with; none in a process that has imported Ray
        before. There, the private Ray listens on all interfaces, and asks for the token where this is Ray's default.
    """
    if "ray" in sys.modules:
        return {}
    with environment(_PRIVATE):
        import_module("ray")
    return _PRIVATE


def expect_cluster() -> None:
    """Import Ray so that signals are this process's own while it joins a cluster."""
    with environment(_SIGNALS):
        import_module("ray")
