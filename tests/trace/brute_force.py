"""The breakdown of a window moment by moment: on a grid, each cell is asked what runs in it."""


def breakdown(events, start, end):
    """Cells of a window by state, from the definition.

    Args:
        events: (start, end, kind) with whole numbers; kind is ``compute``, ``communicate`` or ``copy``.
        start, end: of the window.
    """
    cells = {"compute": 0, "exposed communication": 0, "exposed copy": 0, "idle": 0, "communication": 0, "copy": 0}
    for cell in range(start, end):
        running = {kind for first, behind, kind in events if first <= cell < behind}
        cells["communication"] += "communicate" in running
        cells["copy"] += "copy" in running
        if "compute" in running:
            cells["compute"] += 1
        elif "communicate" in running:
            cells["exposed communication"] += 1
        elif "copy" in running:
            cells["exposed copy"] += 1
        else:
            cells["idle"] += 1
    return cells
