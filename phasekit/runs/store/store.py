"""The run store: one directory for each finished task, whole or not there.

::

    STORE/.signac/config              marks a signac project: signac's own tools read the store too
    STORE/workspace/ID/               a finished task
        signac_statepoint.json        its parameters; their hash is ID
        result.npz                    its numbers, and how they were computed (results.py)
    STORE/plans/0000.json             what was asked for, and which tasks form an ensemble
    STORE/failures/ID.json            the error that a task ended with
    STORE/staging/GROUP/ID/           results of an ensemble on their way to the workspace
    STORE/claims/ · checkpoints/      who works on what; states of unfinished ensembles
    STORE/thresholds.json             what theory said when the sweep was expanded
    STORE/broken/                     where `phasekit repair` puts what isn't whole

What is finished is what lies whole in ``workspace``: there is no index that could disagree with it. State point and
result decide; other files beside them (signac's own document, leftovers of a network file system) don't matter.
An ensemble's results are written under a temporary name and appear in ``staging`` with one move, then go to
``workspace`` one by one. A process killed in between leaves them in ``staging``, where anybody completes the moves.

The format is signac's, the code is not: signac makes a task's folder first and fills it afterwards, so that a reader
would see half of it, and so would everybody after a process was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.files import atomic, output_folder
from phasekit.runs.procedures import Outcome
from phasekit.runs.store.records import BrokenRecord, parse_record, read_record
from phasekit.runs.store.results import is_whole, pack, unpack
from phasekit.runs.sweeps.canonical import hash_of
from phasekit.runs.sweeps.task import Parameters, Task, check_parameters

_STATE_POINT, _RESULT = "signac_statepoint.json", "result.npz"
_ID = re.compile(r"[0-9a-f]{32}")
_STAGED = re.compile(r"[0-9a-f]{32}(-[0-9a-f]{32}){1,2}")
_FOLDERS = ("workspace", "plans", "failures", "staging", "claims", "checkpoints")
_SIGNAC = "schema_version = 2\n"


class BrokenTask(BrokenRecord):
    """What lies in a task's directory isn't what was written there; the message says why."""


class OtherSchema(BrokenTask):
    """A task is whole, but written by a version of phasekit whose tasks mean something else."""


@dataclass(frozen=True)
class Finished:
    """A finished task, read from the store.

    Attributes
    ----------
    parameters : what the task depends on; see :class:`phasekit.runs.sweeps.task.Parameters`
    values, arrays : name to array
        See :class:`phasekit.runs.procedures.Outcome`.
    record : dict
        How it was computed: precision, device, threads, ensemble, seconds, versions; and the ``multiple`` of a
        threshold that its P was written as in the sweep (:class:`phasekit.runs.sweeps.task.Multiple`).
    """

    parameters: Parameters
    values: dict[str, NDArray[Any]]
    arrays: dict[str, NDArray[Any]]
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
            # Only now: a store that exists has all its folders. Two runners may do this at once, so the mark is made
            # elsewhere and appears with one move; whoever comes second finds it there.
            with tempfile.TemporaryDirectory(dir=store.staging, prefix=".project-") as made:
                (Path(made) / ".signac").mkdir()
                (Path(made) / ".signac" / "config").write_text(_SIGNAC)
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
        """Return the ids of all tasks in the workspace, whole or broken."""
        return set(filter(_ID.fullmatch, os.listdir(self.workspace)))

    def has(self, task: str) -> bool:
        """Whether there is something in a task's place, whole or broken."""
        return (self.workspace / task).exists()

    def check(self, task: str) -> str | None:
        """Return what is wrong with a task's state point and result; None if they are what was written."""
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
            If it isn't whole, or of another schema.
        """
        state_point, result = self._read(task)
        try:
            parameters = check_parameters(parse_record(state_point))
        except (BrokenRecord, InputError) as error:
            kind = OtherSchema if isinstance(error, InputError) and error.field == "schema" else BrokenTask
            raise kind(f"{_STATE_POINT}: {error}") from None
        try:
            return Finished(parameters, *unpack(result))
        except BrokenRecord as error:
            raise BrokenTask(f"{_RESULT} {error}") from None

    def _read(self, task: str) -> tuple[bytes, bytes]:
        """Return state point and result of a task after checking that they are what was written."""
        read = {}
        for name in (_STATE_POINT, _RESULT):
            try:
                with open(f"{self.workspace}/{task}/{name}", "rb", buffering=0) as file:
                    read[name] = file.readall()
            except FileNotFoundError:
                raise BrokenTask(f"{name} missing") from None
            except OSError as error:
                raise BrokenTask(f"{name} can't be read ({error.strerror})") from None
        if hash_of(read[_STATE_POINT]) != task:
            raise BrokenTask(f"{_STATE_POINT} is not what the directory is named after")
        if not is_whole(task, read[_RESULT]):
            raise BrokenTask(f"{_RESULT} is truncated, was changed, or belongs to another task")
        return read[_STATE_POINT], read[_RESULT]

    def failure(self, task: str) -> dict[str, Any] | None:
        """Return the record of a task's failure (``task``, ``type``, ``message``, …), None if there is none."""
        try:
            record = read_record(self.failures / f"{task}.json")
        except FileNotFoundError:
            return None
        except BrokenRecord as broken:
            record = {"message": f"the record of the failure {broken}"}
        return {"type": "unknown", "message": "", **record, "task": task}

    def failed(self) -> set[str]:
        """Return the ids of tasks with a recorded failure that have not finished since."""
        names = {name.removesuffix(".json") for name in os.listdir(self.failures) if name.endswith(".json")}
        return set(filter(_ID.fullmatch, names)) - self.names()

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
                _write_task(temporary / task.id, task, outcome, record, durable)
            temporary.rename(self.staging / f"{group}-{unique}")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.recover(group)

    def recover(self, group: str) -> None:
        """Complete the moves of an ensemble's results to the workspace, whoever began them."""
        for name in os.listdir(self.staging):
            if name.startswith(group):
                self._move(self.staging / name)

    def _move(self, staged: Path) -> None:
        try:
            names = list(filter(_ID.fullmatch, os.listdir(staged)))
        except (FileNotFoundError, NotADirectoryError):  # another process has completed the moves, or a foreign file
            return
        for name in names:
            try:
                (staged / name).rename(self.workspace / name)
            except FileNotFoundError:
                pass
            except OSError:
                if not self.has(name):
                    raise
                shutil.rmtree(staged / name, ignore_errors=True)  # the place is taken: it had finished before
            self.forget_failures([name])
        with contextlib.suppress(OSError):  # gone already, or with something foreign in it
            staged.rmdir()

    def recover_all(self) -> None:
        """Complete all moves, and remove what dead processes of this machine left half-written."""
        for name in os.listdir(self.staging):
            if not name.startswith("."):
                self._move(self.staging / name)
            elif _left_behind(name):
                shutil.rmtree(self.staging / name, ignore_errors=True)

    def remove(self, task: str) -> None:
        """Delete a task's result, so that it counts as missing."""
        unique = self.staging / f".{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        (self.workspace / task).rename(unique)
        shutil.rmtree(unique, ignore_errors=True)

    def checkpoint(self, group: str) -> Path:
        """Return where the state of an unfinished ensemble is kept."""
        return self.checkpoints / f"{group}.npz"

    def saved_at(self, group: str) -> float:
        """Return when the state of an ensemble was last saved, in seconds since 1970; 0 if it wasn't."""
        try:
            return self.checkpoint(group).stat().st_mtime
        except OSError:
            return 0.0

    def write_failure(self, task: Task, error: Mapping[str, Any]) -> None:
        """Record that a task failed, with its parameters."""
        with atomic(self.failures / f"{task.id}.json") as temporary:
            temporary.write_text(json.dumps({"task": task.id, **error, "parameters": task.parameters}, indent=2))

    def forget_failures(self, tasks: Iterable[str]) -> None:
        """Remove the records of failures."""
        for task in tasks:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                (self.failures / f"{task}.json").unlink()

    # --- integrity

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong in the workspace and on the way to it: its place in the store, and the reason.

        Whole tasks of another schema are no problem: another version of phasekit reads them.
        """
        for name in sorted(os.listdir(self.workspace)):
            try:
                if _ID.fullmatch(name):
                    self.load(name)
                elif not name.startswith("."):
                    yield name, "foreign: not the name of a task"
            except OtherSchema:
                continue
            except BrokenTask as broken:
                yield name, str(broken)
        for folder, ours in (
            (self.staging, _is_staged),
            (self.claims, Path.is_file),
            (self.checkpoints, Path.is_file),
        ):
            for path in sorted(folder.iterdir()):
                if not path.name.startswith(".") and path.exists() and not ours(path):
                    yield f"{folder.name}/{path.name}", "foreign: phasekit didn't write it"

    def set_aside(self, place: str) -> Path:
        """Move something out of its place (see :meth:`problems`) to ``broken/``, and return where it is."""
        source = self.path / place if "/" in place else self.workspace / place
        folder = output_folder(self.path / "broken")
        target = next(path for k in range(10**6) if not (path := folder / f"{source.name}-{k}").exists())
        source.rename(target)
        return target


def _write_task(folder: Path, task: Task, outcome: Outcome, record: Mapping[str, Any], durable: bool) -> None:
    folder.mkdir()
    multiple = {} if task.multiple is None else {"multiple": asdict(task.multiple)}
    for name, content in ((_STATE_POINT, task.state_point), (_RESULT, pack(task.id, outcome, {**record, **multiple}))):
        with open(folder / name, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())


def _is_staged(path: Path) -> bool:
    """Whether these are results on their way to the workspace, and nothing else."""
    return bool(_STAGED.fullmatch(path.name)) and path.is_dir() and all(map(_ID.fullmatch, os.listdir(path)))


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
