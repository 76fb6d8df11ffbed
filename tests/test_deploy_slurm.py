"""deploy/slurm.sh under a real Slurm; ``benchmarks/slurm.py`` takes nodes from it."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import slurm
from benchmarks.killing import Run

ROOT = Path(__file__).parents[1]


def test_the_script_is_shell():
    subprocess.run(["bash", "-n", ROOT / "deploy" / "slurm.sh"], check=True)


@pytest.mark.slow
@pytest.mark.skipif(not slurm.is_installed(), reason="Slurm and munge are not installed")
def test_a_job_of_two_nodes_has_the_answer_of_one_process(tmp_path):
    command = ("wafer", "resnet50-lean-blocks", "--moves", 500, "--sweep", "side=400,633")
    alone, job = Run(tmp_path / "alone", *command), Run(tmp_path / "job", *command)
    code, printed = alone.finish("--workers", 0)
    assert code == 0, printed
    with slurm.Slurm(2) as cluster:
        number = cluster.submit(job, 2)
        assert cluster.ended(number) == "COMPLETED", (tmp_path / "job" / "job.txt").read_text()
    assert "2 of 2 nodes have started" in (tmp_path / "job" / "job.txt").read_text()
    assert sorted(job.journal()) == sorted(alone.journal())
    assert job.result() == alone.result()
