"""A real SLURM of one node, in namespaces of its own: nothing that it does reaches the machine, or outlives it.

Debian's packages are enough (``apt-get install slurm-wlm munge iproute2``). Daemons and jobs live in namespaces for
processes, network, mounts and the host's name. When their first process ends, the kernel ends all of them. The node
claims more processors and memory than the machine may have: jobs of tests mostly wait.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: SLURM and Dask need an address of the host that isn't loopback; nobody else sees this one.
ADDRESS = "10.77.0.1"
_TOOLS = ("slurmctld", "slurmd", "munged", "sbatch", "ip", "mount", "unshare", "nsenter")
_KINDS = ("--net", "--pid", "--mount", "--uts")
#: Seconds to wait for anything: machines may be busy.
PATIENCE = 100.0

#: States and keys of jobs are kept under {folder}. Lower priority gives way to higher by going back to the queue, where
#: it waits for ``cred_expire`` seconds. `kill_wait` is the time between SIGTERM and SIGKILL.
_CONF = """
ClusterName=tests
SlurmctldHost=node({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=10
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName=node NodeAddr={address} CPUs={cpus} RealMemory=65536 State=UNKNOWN
PartitionName=usual Nodes=node Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=node PriorityTier=2 MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return why there can be no cluster on this machine, or None."""
    absent = [tool for tool in _TOOLS if not shutil.which(tool, path=_path())]
    if absent:
        return f"SLURM isn't installed ({', '.join(absent)})"
    if os.geteuid():
        return "SLURM's daemons need root"
    tried = subprocess.run(
        ["unshare", *_KINDS, "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"], capture_output=True, text=True
    )
    return f"namespaces can't be made here ({tried.stderr.strip()})" if tried.returncode else None


def eventually(what: str, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; TimeoutError says what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)


class Cluster:
    """A running SLURM.

    Parameters
    ----------
    folder : path
        For its state, keys and logs, which are there after it has ended, too.
    cpus : int
        Processors of its node: each job of one processor takes one.
    """

    def __init__(self, folder: Path, cpus: int) -> None:
        self.folder, self.cpus = folder, cpus
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PYTEST"))},
            "PATH": _path(),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "DASK_TEMPORARY_DIRECTORY": str(folder / "dask"),
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        for name in ("state", "spool", "munge"):
            (folder / name).mkdir(mode=0o700)
        key = folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        (folder / "slurm.conf").write_text(_CONF.format(folder=folder, cpus=cpus, address=ADDRESS))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._started = [self._namespaces()]

    def _namespaces(self) -> subprocess.Popen[str]:
        """Start the first process of the namespaces; it ends with its input, so with this process, and all others."""
        # The address stands on the loopback device: not every kernel has dummy ones. Without a list of hosts
        # everybody would wait for a name server that can't be reached.
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} node\n")
        settle = (
            f"hostname node && ip link set lo up && ip address add {ADDRESS}/32 dev lo"
            f" && ip route add default dev lo src {ADDRESS} && mount --bind {self.folder}/hosts /etc/hosts"
            " && echo ready && exec cat"
        )
        command = ["unshare", *_KINDS, "--fork", "--kill-child", "--mount-proc", "sh", "-c", settle]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        first: subprocess.Popen[str] = subprocess.Popen(command, text=True, env=self.environment, **pipes)
        assert first.stdout is not None
        if first.stdout.readline() != "ready\n":
            raise RuntimeError("the namespaces can't be made")
        return first

    def _enter(self) -> list[str]:
        """Return what a command must begin with to run inside."""
        first = self._started[0].pid
        child = Path(f"/proc/{first}/task/{first}/children").read_text().split()[0]
        return ["nsenter", f"--target={child}", *_KINDS, f"--wd={self.folder}", "--"]

    def start(self, *command: str, name: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command inside; what it says goes to NAME.out and NAME.err, unless an option says otherwise."""
        noted = ["sh", "-c", f'echo $$ > {name}.started && exec "$@"', name, *command]
        with (self.folder / f"{name}.out").open("w") as out, (self.folder / f"{name}.err").open("w") as err:
            settings = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **options}
            started: subprocess.Popen[str] = subprocess.Popen(
                [*self._enter(), *noted], env=self.environment, text=True, **settings
            )
        self._started.append(started)
        return started

    def kill(self, name: str) -> None:
        """Kill what was started by that name, so that it can save nothing."""
        self.call("kill", "-KILL", (self.folder / f"{name}.started").read_text().strip())

    def call(self, *command: str) -> str:
        """Run a command inside, and return what it prints; RuntimeError if it fails."""
        done = subprocess.run(
            [*self._enter(), *command], env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout.strip()

    # --- daemons

    def start_daemons(self) -> None:
        """Start munge, controller and node; return when jobs can be submitted."""
        munge = self.folder / "munge"
        self.call(
            "munged", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={munge}/key",
            f"--log-file={munge}/log", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
        )  # fmt: skip
        self.start_controller()
        self.start("slurmd", "-D", "-N", "node", name="slurmd")
        eventually("the node is idle", lambda: self._state() == "idle")

    def start_controller(self) -> None:
        """Start the controller (the scheduler of jobs), and wait until it answers."""
        before = self._begun()
        self.start("slurmctld", "-D", name="slurmctld")
        eventually("slurmctld has begun", lambda: self._begun() > before)

    def _begun(self) -> int:
        """Return how often the controller has begun; asking it takes ten seconds where there is none."""
        log = self.folder / "slurmctld.log"
        return log.read_text().count("Running as primary controller") if log.exists() else 0

    def _state(self) -> str:
        return self.call("sinfo", "--noheader", "--partition=usual", "--format=%t").rstrip("*")

    # --- jobs

    def submit(self, script: Path | str, *options: str) -> str:
        """Submit a script (or a line of shell, as a word), and return the id of its job."""
        body = [str(script)] if isinstance(script, Path) else ["--wrap", script]
        return self.call("sbatch", "--parsable", "--output=job-%A-%a.log", *options, *body)

    def jobs(self, *states: str) -> list[str]:
        """Return the ids of jobs, each member of an array with its own, in these states (else in any but ended)."""
        chosen = [f"--states={','.join(states)}"] if states else []
        return self.call("squeue", "--noheader", "--array", "--format=%i", *chosen).split()

    def cancel(self, *jobs: str) -> None:
        """Cancel jobs."""
        self.call("scancel", *jobs)

    def end(self) -> None:
        """End everything that runs inside."""
        self._started[0].kill()
        for process in self._started:
            process.communicate()


def _path() -> str:
    """Return where commands are found: phasekit beside this Python, daemons where root has them."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@contextmanager
def slurm(folder: Path, cpus: int = 8) -> Iterator[Cluster]:
    """Yield a running SLURM with its state in an empty folder, and take all of it down."""
    cluster = Cluster(folder, cpus)
    try:
        cluster.start_daemons()
        yield cluster
    finally:
        cluster.end()
