"""How a run lives: executor, journal, run directory, mirror, progress, stop signal, cache, temporary folders."""
