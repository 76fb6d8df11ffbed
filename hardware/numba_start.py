"""What Numba imports before its first kernel, without SciPy."""

import importlib
import sys
from importlib.util import find_spec
from typing import Any

_ARRAY_FUNCTIONS = "numba.np.arraymath"


def start_without_scipy() -> None:
    """Import Numba's array functions, without SciPy's linear algebra, unless that was done before.

    They import it only to note whether it is installed, which takes 0.1 s of computing in each process that runs a
    kernel; no kernel here calls BLAS. One that does imports it as it is compiled.
    """
    if _ARRAY_FUNCTIONS in sys.modules:
        return
    linear_algebra: Any = importlib.import_module("numba.np.linalg")
    ensure_blas = linear_algebra.ensure_blas
    linear_algebra.ensure_blas = _ensure_scipy
    try:
        importlib.import_module(_ARRAY_FUNCTIONS).ensure_blas = ensure_blas  # type: ignore[attr-defined]
    finally:
        linear_algebra.ensure_blas = ensure_blas


def _ensure_scipy() -> None:
    """Stands for Numba's ``ensure_blas``.

    Raises:
        ImportError: SciPy is not installed.
    """
    if find_spec("scipy") is None:
        raise ImportError("SciPy is not installed")
