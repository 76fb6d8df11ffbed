"""What identifies the simulator: samples and cost models of one simulator are worth nothing under another one."""

from dataclasses import asdict

from dse.fabric.evaluators.measure import WARM_UP_SAMPLES, WINDOW_SAMPLES
from dse.results.result import digest
from hardware.fabrics import Fabric

RULES_VERSION = 1
"""Version of the rules in :mod:`dse.fabric.evaluators`; to be raised with any change that changes a simulated value."""


def simulator_fingerprint(fabric: Fabric) -> str:
    """``sha256:…`` of the rules' version, the window, and all constants of a fabric but its name."""
    constants = {name: value for name, value in asdict(fabric).items() if name != "name"}
    return digest({"rules": RULES_VERSION, "window": [WARM_UP_SAMPLES, WINDOW_SAMPLES], "fabric": constants})
