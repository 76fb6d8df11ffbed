"""PHAZE (2024): its tables and figures beside ours."""
