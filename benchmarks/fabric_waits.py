"""What a large layer waits for on its fabric, and what would relieve it: ``dse fabric place bert-large:layer3``."""

from benchmarks.recording import Record, Results, cpu_s, parser_of

RECORD = Record(
    "fabric_waits",
    ("samples", "slots", "bound", "gap", "seconds"),
    {
        "waits": ("waiting for", "slots per sample", "share"),
        "relief": ("the same placement with", "samples/s", "gain"),
    },
)
GRAPH = "bert-large:layer3"


def main() -> None:
    """Both tables."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--graph", default=GRAPH)
    arguments = parser.parse_args()
    import dse

    begun = cpu_s()
    answer = dse.fabric(arguments.graph, workers=0)
    seconds = cpu_s() - begun
    (piece,) = answer.metrics["pieces"]
    shown = {table.headers: table.rows for table in answer.view.tables}
    for name, columns in RECORD.tables.items():
        for cells in shown[columns]:
            results.row(name, *cells)
    results.figure("samples", f"{answer.value:,.1f}")
    results.figure("slots", f"{piece['interval_slots']:.1f}")
    results.figure("bound", f"{piece['bound']['slots']:.1f}")
    results.figure("gap", f"{100 * answer.gap:.2f} %")
    results.figure("seconds", f"{seconds:.0f} CPU seconds")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
