"""``python -m dse``: the same as the installed command ``dse``."""

from dse.cli import main

if __name__ == "__main__":
    main()
