"""Small databases of our own, in the form in which Nsight Systems writes them."""

import sqlite3

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_PROCESS = 77 << 24
_DEVICE = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER"
_TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    KERNEL: f"{_DEVICE}, demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_DEVICE}, bytes INTEGER, copyKind INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INT",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER",
}


def nsight(path, statements=(), without=()):
    """One step on one device: a product of 40 µs that a range of PyTorch launched, a copy, and a replayed kernel."""
    with sqlite3.connect(path) as connection:
        for name, columns in _TABLES.items():
            if name not in without:
                connection.execute(f"CREATE TABLE {name} ({columns})")
        rows = {
            "StringIds": [(1, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"), (2, "gelu_kernel"), (3, "step 1")],
            KERNEL: [(30_000, 70_000, 0, 7, 5, _PROCESS, 1, 1, None), (80_000, 85_000, 0, 7, 6, _PROCESS, 2, 2, 3)],
            "CUPTI_ACTIVITY_KIND_MEMCPY": [(60_000, 75_000, 0, 8, 7, _PROCESS, 4096, 8)],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [(11_000, 12_000, _PROCESS + 3, 5, 1), (13_000, 14_000, _PROCESS + 3, 6, 1),
                                            (15_000, 16_000, _PROCESS + 3, 7, 1)],
            "NVTX_EVENTS": [
                (10_000, 12_500, 59, "aten::mm, op_id = 4, sizes = [[512, 1024], [1024, 2048]]", _PROCESS + 3, None),
                (14_500, 17_000, 59, "load the batch", _PROCESS + 3, None),
                (5_000, 90_000, 59, None, _PROCESS + 3, 3),
                (5_000, None, 34, "a mark", _PROCESS + 3, None),
            ],
        }  # fmt: skip
        for name, own in rows.items():
            if name not in without:
                connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(own[0]))})", own)
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path
