"""Journals with other values in them, each line as sound as one of the program's own."""

from dse.run.journal import Journal


def alter(path, change):
    """Write ``change(value)`` in the place of every value of the journal at ``path``."""
    with Journal(path) as journal:
        values = {key: change(value) for key, value in journal.items()}
    path.unlink()
    with Journal(path) as journal:
        journal.append_all(values)
