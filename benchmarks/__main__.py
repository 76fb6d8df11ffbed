"""Run every benchmark, or those that are named, in sequence, each in a process of its own."""

import argparse
import subprocess
import sys

SCRIPTS = (
    "placement",
    "estimator",
    "sunstone",
    "schedule",
    "measured",
    "energy",
    "silicon",
    "importer",
    "codesign",
    "space",
    "hysteresis",
    "pareto",
    "common",
    "sensitivity",
    "scale",
    "scale_sweep",
    "scale_rollouts",
    "campaigns",
    "chaos",
    "partition",
    "partition_graphs",
    "partition_calibration",
    "parallel",
    "pipelines",
    "hybrid",
    "learning_speed",
    "wafer",
    "fabric_simulator",
    "fabric_nextpnr",
    "truth",
    "intervals",
    "plan_kernels",
    "plans",
    "serving_proofs",
    "modern_codesign",
    "chip_search",
    "newcomer",
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", choices=["all", *SCRIPTS], default="all", metavar="SCRIPT")
    codes, scripts = [], parser.parse_args().scripts
    for script in SCRIPTS if "all" in scripts else scripts:
        print(f"\n== {script} ==", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{script}"]).returncode)
    sys.exit(max(codes))
