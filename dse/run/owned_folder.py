"""Temporary folders that know whether their process still lives, so that those of killed ones can be removed.

A process that is killed (``kill -9``, a power cut) cannot remove its own folders. Each holds a file that its process
keeps locked; the kernel lets go of the lock when the process ends, however it does, and unlike a process id a lock is
never taken over by a stranger.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

OWNER_FILE = "dse-owner.lock"
"""Locked by the process that the folder belongs to, which is named in it for people."""


class OwnedFolder:
    """A new folder ``PREFIX…`` in ``parent`` that is gone when the context ends.

    Folders of the same prefix that killed processes of this user have left in ``parent`` are removed first.
    """

    def __init__(self, prefix: str, parent: Path) -> None:
        remove_left_over(prefix, parent)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # Under another name until it is locked: nobody must find it and see it unlocked.
        unlocked = self.path / f".{OWNER_FILE}"
        self._owner = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        os.write(self._owner, f"{os.getpid()}\n".encode())
        # Where the file system knows no locks, nothing can be proven later, and the folder is nobody's to remove.
        with suppress(OSError):
            fcntl.flock(self._owner, fcntl.LOCK_EX)
            unlocked.rename(self.path / OWNER_FILE)

    def close(self) -> None:
        """Remove the folder. What resists is left to a later process."""
        with suppress(OSError):
            _remove(self.path)
        os.close(self._owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def remove_left_over(prefix: str, parent: Path) -> list[Path]:
    """Remove the folders that :class:`OwnedFolder` made and whose process has ended; returns their paths.

    Left alone is what may be another's: of another user, a link, without the locked file, or with one that is locked.
    """
    removed = []
    for folder in sorted(parent.glob(f"{prefix}*")):
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            owner = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another process may have removed it since, and a third one made its own of that name.
                if os.path.samestat(os.fstat(owner), (folder / OWNER_FILE).lstat()):
                    _remove(folder)
                    removed.append(folder)
            finally:
                os.close(owner)
    return removed


def _remove(folder: Path) -> None:
    """Remove ``folder``, its owner file last: what cannot be removed now is tried again by a later process."""
    for entry in folder.iterdir():
        if entry.name == OWNER_FILE:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if [entry.name for entry in folder.iterdir()] == [OWNER_FILE]:
        (folder / OWNER_FILE).unlink()
        folder.rmdir()
