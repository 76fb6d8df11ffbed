"""Optional packages that tests need and do not import themselves."""

from importlib.util import find_spec

import pytest


def needs(*packages):
    """The mark of tests that are skipped unless all ``packages`` are installed.

    ``pytest.importorskip`` imports them too, in every process that collects the tests. scikit-learn and transformers
    take a second each, and few processes run tests that use them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
