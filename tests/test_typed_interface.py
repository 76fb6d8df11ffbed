"""The Python interface has types: those of the options, and mypy --strict accepts a user's program."""

import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import dse
from docs.making.documents import documents, types_of
from docs.making.stubs import DOCUMENTS, STUB, stub
from dse.cli.interface import solve
from dse.problem import registered
from dse.results import documents as result_types

ROOT = Path(__file__).parents[1]

PROGRAM = """
import dse


def first(name: str) -> dse.Answer:
    answer = dse.codesign(name, accelerators=64, microbatch=[1, 2], objective="per-watt", seed=1)
    value: float | None = answer.value
    print(value, answer.unit, answer.bound, answer.gap, answer.status, answer.solution, answer.metrics)
    print(answer.tables(), answer.check(), answer.figure())
    return answer


answers: list[dse.Answer] = [
    first("bert-large"),
    dse.place("layers.json"),
    dse.schedule({"schema": "dse.schedule/1"}, method="cp-sat"),
    dse.partition("squeezenet", chips=4, workers=0),
    dse.wafer("fcnet", moves=100, sweep=["side=400,633"]),
    dse.parallel("step.hlo", mesh="data=2,model=2", time_limit=10.0),
    dse.fabric("graph.json", chains=1, out="runs/fabric"),
    dse.plan("llama3-8b", global_batch=64),
    dse.predict("llama3-8b", plan={"tensor": 8}),
]
print(dse.__version__, dse.problems(), answers)
dse.plan("llama3-8b", global_batc=64)  # type: ignore[call-arg]

best = dse.plan("llama3-8b")
tensor: int = best.solution["plan"]["tensor"]
step_s: float = best.metrics["step_s"] + best.metrics["time_s"]["bubble"]
chips: dict[str, int | dict[str, int]] = dse.partition("squeezenet").solution["chip"]
cores: int = dse.codesign("bert-large").solution["architecture"]["tensor_cores"]
front: list[str] = dse.wafer("fcnet", sweep=["side"]).metrics["front"]
turns: object = dse.fabric("graph.json").solution["turns"]
mesh: object = dse.parallel("step.hlo").solution["mesh"]
best.solution["plna"]  # type: ignore[typeddict-item]
best.metrics["mfuu"]  # type: ignore[typeddict-item]
wrong: str = dse.place("layers.json").solution["data"]  # type: ignore[assignment]
"""


def test_the_stub_follows_the_options():
    assert "".join(STUB.read_text(encoding="utf-8").split()) == "".join(stub().split())


def test_the_types_of_results_follow_their_models():
    assert "".join(DOCUMENTS.read_text(encoding="utf-8").split()) == "".join(documents().split())
    assert all(hasattr(result_types, name) for each in registered().values() for name in types_of(each))


def test_the_stub_has_the_settings_of_a_run():
    stated = STUB.read_text(encoding="utf-8").partition("class _Run")[2].partition("__version__")[0]
    names = [line.split(":")[0].strip() for line in stated.splitlines()[1:] if ":" in line]
    parameters = inspect.signature(solve).parameters.values()
    assert names == [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def test_dir_shows_what_is_public():
    assert set(dir(dse)) == {"Answer", "__version__", "problems", *dse.problems()}
    assert all(hasattr(dse, name) for name in dir(dse))


def test_a_users_program_passes_mypy_strict(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            os.devnull,
            "--follow-imports",
            "silent",
            "program.py",
        ],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
