"""Write files whole or not at all: under a temporary name in the same folder, flushed, then moved."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phasekit.errors import InputError


def output_folder(path: str | Path) -> Path:
    """Create ``path`` as a folder that can be written to.

    Raises
    ------
    InputError
        If it is a file, or can't be created or written to.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError("output folder", str(path), f"can't be written to ({error.strerror})") from None
    return folder


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; move it there if the block succeeds, remove it if not.

    The temporary name keeps the suffix of ``path``, because writers (matplotlib, netCDF) choose their format by it.

    Raises
    ------
    InputError
        If the folder of ``path`` can't be written to.
    """
    target = Path(path)
    folder = output_folder(target.parent)
    if target.is_dir():
        raise InputError("output file", str(path), "is a folder")
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=folder)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Read the process's file-creation mask (there is no way to read it without setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
