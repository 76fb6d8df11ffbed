"""What a stranger gets from ports of this machine: run as a program, as another user or in another network.

Argument: ``HOST PORT…``. Prints for each port what answers there: ``refused`` where nothing does, a status of gRPC or
HTTP, ``metrics`` where it is the text that Prometheus reads.
"""

import http.client
import json
import os
import sys

import grpc

NOBODY = 65534
QUESTIONS = tuple(
    f"/ray.rpc.{method}"
    for method in (
        "NodeInfoGcsService/CheckAlive",
        "NodeManagerService/GetSystemConfig",
        "CoreWorkerService/NumPendingTasks",
        "ObjectManagerService/Pull",
        "ReporterService/GetTraceback",
    )
)
"""One of each server of Ray: any other is not implemented there."""

TIMEOUT_S = 20


def answer(host, port):
    """What the port says to somebody without the token."""
    said = {asked_by_grpc(host, port, question) for question in QUESTIONS} - {"UNIMPLEMENTED"}
    if said != {"UNAVAILABLE"}:
        return " or ".join(sorted(said))
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        is_metrics = response.getheader("content-type", "").startswith("text/plain") and b"# HELP" in response.read()
        return "metrics" if response.status == 200 and is_metrics else str(response.status)
    except (OSError, http.client.HTTPException):
        return "refused"
    finally:
        connection.close()


def asked_by_grpc(host, port, question):
    """The status of a call of gRPC."""
    with grpc.insecure_channel(f"{host}:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary(question).future(b"", timeout=TIMEOUT_S).code().name


def main():
    """Ask each port."""
    host, *ports = sys.argv[1:]
    answer("127.0.0.1", 1)  # imports what nobody could
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print(json.dumps({port: answer(host, int(port)) for port in ports}))


if __name__ == "__main__":
    main()
