"""What must be set before Ray is imported, for a private instance that nobody else can reach."""

import os
import sys

_PRIVATE = {
    # Ray then takes the loopback address for the address of this machine, on Linux as on macOS and Windows, and all of
    # its processes listen there alone.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # The default from 2.59 on; versions before 2.52 have no token.
    "RAY_AUTH_MODE": "token",
}


def expect_private_ray() -> None:
    """Have the private Ray of this process listen on loopback only, and ask for its token.

    Without effect in a process that has imported Ray before: its private instance listens on all interfaces then, and
    asks for the token where this is Ray's default.
    """
    if "ray" not in sys.modules:
        os.environ.update(_PRIVATE)
