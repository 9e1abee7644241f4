"""The run store: one directory for each finished task, whole or not there.

::

    STORE/.signac/                    a signac project: signac's own tools read the store too
    STORE/workspace/ID/               a finished task
        signac_statepoint.json        its parameters; their hash is ID
        result.npz                    its numbers, and record.json: how they were computed
    STORE/plans/0000.json             what was asked for, and which tasks form an ensemble
    STORE/failures/ID.json            the error that a task ended with
    STORE/staging/GROUP/ID/           results of an ensemble on their way to the workspace
    STORE/claims/ · checkpoints/      who works on what; states of unfinished ensembles
    STORE/broken/                     where `phasekit repair` puts what isn't whole

What is finished is what lies whole in ``workspace``: there is no index that could disagree with it. An ensemble's
results are written under a temporary name and appear in ``staging`` with one move, then go to ``workspace`` one by one.
A process killed in between leaves them in ``staging``, where anybody completes the moves.

``result.npz`` ends in the hash of everything before it and of ID (as the archive's comment: any tool still reads it).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from phasekit.errors import InputError
from phasekit.files import atomic, output_folder
from phasekit.runs.procedures import Outcome
from phasekit.runs.sweeps.task import Task

_STATE_POINT, _RESULT = "signac_statepoint.json", "result.npz"
_FILES = frozenset((_STATE_POINT, _RESULT))
_ID = re.compile(r"[0-9a-f]{32}")
_FOLDERS = ("workspace", "plans", "failures", "staging", "claims", "checkpoints")
FORMAT = "phasekit run 1"
_CHECK_SIZE = 32  # hexadecimal digits


class BrokenTask(Exception):
    """What lies in a task's directory isn't what was written there; the message says why."""


@dataclass(frozen=True)
class Finished:
    """A finished task, read from the store.

    Attributes
    ----------
    parameters : dict
        See :attr:`phasekit.runs.sweeps.task.Task.parameters`.
    values, arrays : name to array
        See :class:`phasekit.runs.procedures.Outcome`.
    record : dict
        How it was computed: precision, device, threads, ensemble, seconds, versions.
    """

    parameters: dict[str, Any]
    values: dict[str, np.ndarray[Any, Any]]
    arrays: dict[str, np.ndarray[Any, Any]]
    record: dict[str, Any]


class Store:
    """A run store on disk. Opening one creates nothing; see :meth:`create`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.workspace, self.plans, self.failures, self.staging, self.claims, self.checkpoints = (
            self.path / name for name in _FOLDERS
        )

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """Open a store, creating it if nothing is there.

        Raises
        ------
        InputError
            If the folder holds something else, or can't be written to.
        """
        store = cls(path)
        ours = {*_FOLDERS, ".signac"}  # another runner may be creating the store in this moment
        if store.path.is_dir() and not store.exists() and not {path.name for path in store.path.iterdir()} <= ours:
            raise InputError("store", str(path), "is a folder with other things in it")
        output_folder(store.path)
        for name in _FOLDERS:
            output_folder(store.path / name)
        if not store.exists():
            import signac

            # Only now: a store that exists has all its folders. Two runners may do this at once, so signac's folder is
            # made elsewhere and appears with one move; whoever comes second finds it there.
            with tempfile.TemporaryDirectory(dir=store.staging, prefix=".project-") as made:
                signac.init_project(made)
                with contextlib.suppress(OSError):
                    os.rename(f"{made}/.signac", store.path / ".signac")
        return store

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Open an existing store.

        Raises
        ------
        InputError
            If there is none.
        """
        store = cls(path)
        if not store.exists():
            raise InputError("store", str(path), "is no run store; `phasekit run` makes one")
        return store

    def exists(self) -> bool:
        """Whether the folder is a run store."""
        return (self.path / ".signac").is_dir() and self.workspace.is_dir()

    # --- reading

    def names(self) -> set[str]:
        """Return the names of everything in the workspace, finished tasks by their ids."""
        return set(os.listdir(self.workspace))

    def has(self, task: str) -> bool:
        """Whether there is something in a task's place, whole or broken."""
        return (self.workspace / task).exists()

    def check(self, task: str) -> str | None:
        """Return what is wrong with a task's directory; None if it is whole."""
        try:
            self._read(task)
        except BrokenTask as broken:
            return str(broken)
        return None

    def load(self, task: str) -> Finished:
        """Read a finished task.

        Raises
        ------
        BrokenTask
            If it isn't whole.
        """
        parameters, result = self._read(task)
        try:
            with np.load(BytesIO(result), allow_pickle=False) as file:
                record = json.loads(file["record.json"])
                table = file["values"]
                arrays = {name: file[name] for name in file.files if name not in ("record.json", "values")}
            values = {name: table[name] for name in table.dtype.names}
        except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BrokenTask(f"{_RESULT} is not a result ({error})") from None
        return Finished(json.loads(parameters), values, arrays, record)

    def _read(self, task: str) -> tuple[bytes, bytes]:
        """Return state point and result of a task after checking them."""
        if not _ID.fullmatch(task):
            raise BrokenTask("foreign: not the name of a task")
        folder = f"{self.workspace}/{task}/"
        try:
            if set(os.listdir(folder)) != _FILES:
                raise BrokenTask(_unexpected(set(os.listdir(folder))))
            parameters, result = _bytes(folder + _STATE_POINT), _bytes(folder + _RESULT)
        except OSError as error:
            raise BrokenTask(f"can't be read ({error.strerror})") from None
        if hashlib.md5(parameters, usedforsecurity=False).hexdigest() != task:
            raise BrokenTask(f"{_STATE_POINT} is not what the directory is named after")
        if result[-_CHECK_SIZE:] != _check_sum(task, result[:-_CHECK_SIZE]):
            raise BrokenTask(f"{_RESULT} is truncated, was changed, or belongs to another task")
        return parameters, result

    def failure(self, task: str) -> dict[str, Any] | None:
        """Return the record of a task's failure, None if there is none."""
        try:
            return dict(json.loads(_bytes(str(self.failures / f"{task}.json"))))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            return {"task": task, "type": "unknown", "message": "the record of the failure can't be read"}

    def failed(self) -> set[str]:
        """Return the ids of tasks with a recorded failure that have not finished since."""
        names = {name.removesuffix(".json") for name in os.listdir(self.failures) if name.endswith(".json")}
        return {name for name in names if not name.startswith(".")} - self.names()

    # --- writing

    def commit(
        self, group: str, outcomes: Sequence[tuple[Task, Outcome]], record: Mapping[str, Any], *, durable: bool
    ) -> None:
        """Write the results of an ensemble: all of them become visible, or none.

        Parameters
        ----------
        group : str
            Name of the ensemble.
        outcomes : pairs of a task and its outcome
        record : dict
            How they were computed.
        durable : bool
            Whether to wait until the disk has them. Without it a power failure (not a killed process) may lose or
            truncate them; the check finds that.

        Raises
        ------
        OSError
            If they can't be written (a full disk); nothing of them is left then.
        """
        unique = uuid.uuid4().hex
        temporary = self.staging / f".{socket.gethostname()}-{os.getpid()}-{unique}"
        try:
            temporary.mkdir()
            for task, outcome in outcomes:
                _write_task(f"{temporary}/{task.id}", task, outcome, record, durable)
            temporary.rename(self.staging / f"{group}-{unique}")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.recover(group)

    def recover(self, group: str) -> None:
        """Complete the moves of an ensemble's results to the workspace, whoever began them."""
        for name in os.listdir(self.staging):
            if name.startswith(group):
                with contextlib.suppress(FileNotFoundError):  # another process completes them in this moment
                    self._move(self.staging / name)

    def _move(self, staged: Path) -> None:
        for name in os.listdir(staged):
            try:
                (staged / name).rename(self.workspace / name)
            except FileNotFoundError:
                pass
            except OSError:
                if not self.has(name):
                    raise
                shutil.rmtree(staged / name, ignore_errors=True)  # the place is taken: it had finished before
            (self.failures / f"{name}.json").unlink(missing_ok=True)
        staged.rmdir()

    def recover_all(self) -> None:
        """Complete all moves, and remove what dead processes of this machine left half-written."""
        for name in os.listdir(self.staging):
            if not name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    self._move(self.staging / name)
            elif _left_behind(name):
                shutil.rmtree(self.staging / name, ignore_errors=True)

    def write_failure(self, task: Task, error: Mapping[str, Any]) -> None:
        """Record that a task failed, with its parameters."""
        with atomic(self.failures / f"{task.id}.json") as temporary:
            temporary.write_text(json.dumps({"task": task.id, **error, "parameters": task.parameters}, indent=2))

    def forget_failures(self, tasks: Iterable[str]) -> None:
        """Remove the records of failures."""
        for task in tasks:
            (self.failures / f"{task}.json").unlink(missing_ok=True)

    # --- integrity

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of everything in the workspace that is not a whole task, and what is wrong with it."""
        for name in sorted(self.names()):
            reason = self.check(name)
            if reason is not None:
                yield name, reason

    def set_aside(self, name: str) -> Path:
        """Move something out of the workspace, to ``broken/``, and return where it is; it will be computed again."""
        folder = output_folder(self.path / "broken")
        target = next(path for k in range(10**6) if not (path := folder / f"{name}-{k}").exists())
        (self.workspace / name).rename(target)
        return target


def _write_task(folder: str, task: Task, outcome: Outcome, record: Mapping[str, Any], durable: bool) -> None:
    os.mkdir(folder)
    described = {"format": FORMAT, "task": task.id, **outcome.about, **record}
    for name, content in ((_STATE_POINT, task.state_point), (_RESULT, _pack(outcome, described))):
        with open(f"{folder}/{name}", "wb", buffering=0) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
            if durable:
                os.fsync(file.fileno())


def _pack(outcome: Outcome, record: Mapping[str, Any]) -> bytes:
    """Return an .npz file with the values as one table, the arrays, and the record; its last bytes are its hash."""
    fields = [(name, np.asarray(column)) for name, column in outcome.values.items()]
    table = np.empty(len(fields[0][1]), dtype=[(name, column.dtype) for name, column in fields])
    for name, column in fields:
        table[name] = column
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr(ZipInfo("record.json"), json.dumps(record))
        for name, array in {"values": table, **outcome.arrays}.items():
            member = BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
        archive.comment = b"-" * _CHECK_SIZE
    content = packed.getvalue()[:-_CHECK_SIZE]
    return content + _check_sum(record["task"], content)


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _check_sum(task: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=task.encode(), digest_size=_CHECK_SIZE // 2).hexdigest().encode()


def _unexpected(found: set[str]) -> str:
    missing, foreign = sorted(_FILES - found), sorted(found - _FILES)
    parts = [f"{' and '.join(missing)} missing"] if missing else []
    return "; ".join([*parts, *([f"foreign: {' and '.join(foreign)}"] if foreign else [])])


def _left_behind(name: str) -> bool:
    """Whether a temporary name belongs to a process of this machine that is dead."""
    host, _, rest = name.removeprefix(".").rpartition("-")[0].rpartition("-")
    return host == socket.gethostname() and rest.isdecimal() and not process_lives(int(rest))


def process_lives(pid: int) -> bool:
    """Whether a process of this machine is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
