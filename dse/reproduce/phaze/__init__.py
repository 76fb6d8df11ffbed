"""PHAZE (2024): its tables and figures next to ours."""

SUMMARY = "Architecture and device placement search: best accelerators and plans for eight models (PHAZE, ICML 2024)."
