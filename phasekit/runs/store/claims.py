"""Claims: an ensemble is worked on by one process at a time, whoever started it.

A claim is a lock on a file; the system gives it up when its process dies, however it dies. Where a file system knows no
locks, two runners may compute the same ensemble: their results are the same, and the second one's are dropped.

The package ``filelock`` has locks too, but not what the runner needs here: that the file of a process that died stays
behind and tells what was being worked on, that a file system without locks stops nobody, and that a file which its
holder removed in this moment isn't taken for the lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phasekit.errors import InputError

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Yield whether this process now holds the claim; give it up at the end of the block.

    The file remains if the process dies: it tells what was being worked on.
    """
    handle = _lock(path)
    if handle is None:
        yield False
        return
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}).encode())
        yield True
        path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(path: Path) -> int | None:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except IsADirectoryError:
            raise InputError("claim", path.name, "is a folder; `phasekit repair` sets it aside") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return handle
            os.close(handle)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        # The holder before may have removed the file between our opening and locking it: then the lock guards nothing.
        try:
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
