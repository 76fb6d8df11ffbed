#!/bin/bash
# One dse command on the nodes of a Slurm job, each of which becomes a node of a Ray cluster that ends with the job:
#   sbatch --nodes 4 --time 8:00:00 deploy/slurm.sh campaign docs/examples/campaign.yaml --out /shared/runs/chips
#   scancel --batch --signal=TERM JOB      writes the best answer so far and ends
# --out is a new folder on a file system that all nodes share; --address, --workers and --resume are added here. `dse`
# must be on the PATH of every node (a shared environment, activated before sbatch). A node that is lost costs its unfinished
# evaluations. A job whose first node is lost, or whose time is up, is queued again and continues. What Ray prints is in
# slurm-JOB-ray.out.
#SBATCH --job-name=dse
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -u

nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
on() { local node=$1; shift; srun --quiet --nodes=1 --ntasks=1 --nodelist="$node" --overlap --no-kill --cpu-bind=none "$@"; }

# Whoever knows the token may run code on all nodes; it is passed on in the environment, which is the user's own.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
log=slurm-$SLURM_JOB_ID-ray.out
port=$((20000 + SLURM_JOB_ID % 10000))
ip=$(on "${nodes[0]}" python -c '
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing
    probe.connect(("192.0.2.1", 1))
    print(probe.getsockname()[0])') || exit 1

# The first node's driver takes one of its CPUs. Ports are free ones, so that jobs can share a node.
free="--dashboard-agent-listen-port=0 --disable-usage-stats --block"
on "${nodes[0]}" bash -c "exec ray start --head --node-ip-address=$ip --port=$port --temp-dir=/tmp/dse-$SLURM_JOB_ID \
    --include-dashboard=false --num-cpus=\$((SLURM_CPUS_ON_NODE > 1 ? SLURM_CPUS_ON_NODE - 1 : 1)) $free" >> "$log" 2>&1 &
head=$!
until ray status --address "$ip:$port" > /dev/null 2>&1; do
    kill -0 $head 2> /dev/null || { echo "${nodes[0]}: Ray did not start: $log" >&2; exit 1; }
    sleep 1
done
# Slurm leaves a job alone that has lost the node of its script (--no-kill): the nodes that have lost their head ask for it.
for node in "${nodes[@]:1}"; do
    on "$node" bash -c "ray start --address=$ip:$port --num-cpus=\$SLURM_CPUS_ON_NODE $free
        ray status --address=$ip:$port > /dev/null 2>&1 || scontrol requeue $SLURM_JOB_ID" >> "$log" 2>&1 &
done
python - "$ip:$port" ${#nodes[@]} << 'PYTHON' || exit 1
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
deadline_s = time.monotonic() + 300
while (alive := sum(node["Alive"] for node in ray.nodes())) < int(sys.argv[2]) and time.monotonic() < deadline_s:
    time.sleep(1)
print(f"{alive} of {sys.argv[2]} nodes have started")
PYTHON

dse "$@" --resume --address "$ip:$port" --workers auto &
driver=$!
time_is_up=
trap 'time_is_up=yes; kill -TERM $driver' USR1
trap 'kill -TERM $driver' TERM INT
while :; do  # a signal ends the wait, not what is waited for
    wait $driver
    code=$?
    kill -0 $driver 2> /dev/null || break
done
[ -z "$time_is_up" ] || exec scontrol requeue "$SLURM_JOB_ID"
exit $code
