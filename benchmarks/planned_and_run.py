"""Whether plans run as planned: collectives of a plan next to those of the program that XLA compiles from its export.

``python -m benchmarks.planned_and_run [NAME …]`` plans five steps of :mod:`benchmarks.hlo.steps` for eight devices,
lets JAX compile each exported ``plan_jax.py`` for eight CPU devices, and prints number and bytes of collectives by
kind, planned and compiled. XLA joins several collectives into one, so that bytes compare, and not numbers. Bytes are
those that a group of devices holds together. Pins split channels, columns and heads.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.recording import Record, Results, parser_of

_LINE = "{:14} {:16} {:15} {:>8} {:>12} {:>9} {:>12}"
RECORD = Record("planned_and_run", tables={"main": ("step", "mesh", "bytes planned", "bytes sent")})


class Case(NamedTuple):
    """A step, the mesh, and the pins of its plan."""

    mesh: str
    pins: tuple[str, ...] = ()


CASES = {
    "convolutions": Case(
        "8",
        (
            "parameters['conv0']['kernel']=-,-,-,model",
            "parameters['conv1']['kernel']=-,-,model,-",
            "parameters['conv2']['kernel']=-,-,-,model",
            "batch['image']=-,-,-,-",
        ),
    ),
    "perceptron": Case("8", ("batch['x']=-,-", "parameters['layer0']['kernel']=-,model")),
    "llama-block": Case("data=2,model=4", ("parameters['q']=-,model", "parameters['gate']=-,model")),
    "bert-tiny": Case("data=2,model=4", ()),
    "vgg-tiny": Case("data=2,model=4", ("parameters['conv00']['kernel']=-,-,-,model",)),
}


class Sent(NamedTuple):
    """Of collectives of one kind: how many there are, and their bytes."""

    count: int
    size_bytes: int


def planned(name: str, folder: Path) -> dict[str, Sent]:
    """The plan of a step, whose run directory is ``folder``."""
    _python("benchmarks.hlo.steps", str(folder), name)
    case = CASES[name]
    pins = [part for pin in case.pins for part in ("--pin", pin)]
    out = ("--out", str(folder / "run"), "--quiet", "--workers", "0")
    _python("dse", "parallel", str(folder / f"{name}.hlo"), "--mesh", case.mesh, *pins, *out)
    metrics = json.loads((folder / "run" / "result.json").read_text())["metrics"]
    sent: dict[str, Sent] = {}
    for each in metrics["collectives"]:
        before = sent.get(each["kind"], Sent(0, 0))
        sent[each["kind"]] = Sent(before.count + each["runs"], before.size_bytes + each["bytes"])
    return sent


def compiled(name: str, folder: Path) -> dict[str, Sent]:
    """What XLA makes of the export; in a process of its own, as JAX fixes its devices when it is imported."""
    return {kind: Sent(*of) for kind, of in json.loads(_python(__spec__.name, "--compile", name, str(folder))).items()}


def _python(*arguments: str) -> str:
    return subprocess.run([sys.executable, "-m", *arguments], check=True, capture_output=True, text=True).stdout


def compile_export(name: str, folder: Path) -> dict[str, tuple[int, int]]:
    """Collectives of the compiled program by kind: their number and bytes."""
    from benchmarks.hlo.run_plan import collectives_of, loaded_plan

    plan, sizes = loaded_plan(folder / "run")
    from benchmarks.hlo.steps import STEPS

    step, arguments = STEPS[name]()
    text = plan.apply(step, *arguments).lower(*arguments).compile().as_text()
    counts: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for kind, _, size in collectives_of(text, sizes):
        counts[kind] += 1
        total[kind] += size
    return {kind: (counts[kind], total[kind]) for kind in counts}


def rows(results: Results, names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Kind by kind, planned and compiled; all kinds of a step together go to the table."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            plan, run = planned(name, Path(folder)), compiled(name, Path(folder))
        for kind in sorted({*plan, *run}):
            ours, theirs = plan.get(kind, Sent(0, 0)), run.get(kind, Sent(0, 0))
            counts = f"{ours.count:,}", f"{theirs.count:,}"
            sizes = f"{ours.size_bytes:,}", f"{theirs.size_bytes:,}"
            yield name, CASES[name].mesh, kind, counts[0], sizes[0], counts[1], sizes[1]
        whole, sent = (sum(each.size_bytes for each in of.values()) for of in (plan, run))
        results.row("main", name, CASES[name].mesh, whole, sent)


def main() -> None:
    """Print the table, or compile one export."""
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], default=[], metavar="NAME")
    parser.add_argument("--compile", nargs=2, metavar=("NAME", "FOLDER"), help="only: what XLA makes of one export")
    arguments, results = parser.parse_args(), Results(RECORD)
    if arguments.compile:
        name, folder = arguments.compile
        print(json.dumps(compile_export(name, Path(folder))))
        return
    for row in rows(results, arguments.names or [*CASES]):
        print(_LINE.format(*row), flush=True)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
