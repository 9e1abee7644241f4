"""Write files whole or not at all: under a temporary name in the same folder, flushed, then moved."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasekit.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


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
    If ``path`` is a symbolic link, the file that it points to is replaced and the link stays, as when a file is
    written directly.

    Raises
    ------
    InputError
        If the folder of ``path`` can't be written to, or something other than a file is there.
    OSError
        If the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError("output file", str(path), "is a folder")
    if (target.exists() and not target.is_file()) or target.is_symlink():
        raise InputError("output file", str(path), "must be a file (not a device, a pipe or a circle of links)")
    temporary = output_folder(target.parent) / f".{target.stem}-{uuid.uuid4().hex}{target.suffix}"
    # The system applies the user's mask for new files itself. (Python can read the mask only by setting it.)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_netcdf(data: xr.Dataset | xr.DataTree, path: str | Path, **settings: Any) -> None:
    """Write a labelled data set as netCDF, whole or not at all.

    It is made in memory first: the HDF5 library ends the process with a segmentation fault when the disk is full.

    Parameters
    ----------
    data : Dataset or DataTree
    path : path
    **settings
        Passed on to ``data.to_netcdf``.

    Raises
    ------
    InputError, OSError
        As :func:`atomic`.
    """
    content: Any = data.to_netcdf(engine="h5netcdf", **settings)
    with atomic(path) as temporary:
        temporary.write_bytes(content)
