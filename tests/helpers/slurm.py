"""A Slurm of this machine with two nodes, for tests: its own munge, ports and folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.processes import alive, parent, soon
from tests.helpers.system_packages import install

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("munged", "mungekey", "munge", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")

NODES = ("n1", "n2")
GPUS = ("/dev/zero", "/dev/full")
"""Devices of n1 that Slurm takes for GPUs; n2 has none."""

NODE_TIMEOUT_S = 5
"""After so long without an answer a node is down."""

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
JobRequeue=0
SlurmdTimeout={node_timeout}
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=2 RealMemory=1000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""


@dataclass
class Slurm:
    """Its daemons, which are children of this process."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def variables(self) -> Mapping[str, str]:
        """What programs of Slurm need to find this one; all its processes carry them, too."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *command: str) -> str:
        """The output of a command; raises CalledProcessError."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def queue(self) -> list[str]:
        """Jobs that wait or run, each as `<id> <state> <node>`."""
        return self.ask("squeue", "-h", "-r", "-o", "%i %T %N").splitlines()

    def jobs(self) -> set[str]:
        """All jobs that it knows, finished ones as well, which it forgets after some minutes."""
        return set(self.ask("squeue", "-h", "-r", "-t", "all", "-o", "%i").split())

    def start_requeued(self, job: str) -> None:
        """Waits until a job is in the queue again; without this it starts two minutes later.

        A node refuses what it has to start in the second in which it has killed the job.
        """
        self._await(lambda: any(line.startswith(f"{job} PENDING") for line in self.queue()), job)
        self.ask("scontrol", "update", f"jobid={job}", "StartTime=now+3")

    def idle(self) -> set[str]:
        """Nodes that can take a job."""
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return {node for node, state in map(str.split, lines) if state == "idle"}

    def start(self) -> None:
        """Starts all daemons, and waits until both nodes can take a job."""
        key, end = self.folder / "munge.key", self.folder / "munge.socket"
        self._daemon(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={end}"),
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")),
        )
        self._await(lambda: self._is_served(str(end)), "munged")
        self._daemon("slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        self._await(lambda: self.idle() == set(NODES), "both nodes")

    def start_node(self, node: str) -> None:
        """Starts the daemon of a node, at first or again."""
        self._daemon("slurmd", "-D", "-N", node, name=node)

    def kill_node(self, node: str) -> None:
        """As if it lost its power: its daemon, and all processes of its jobs."""
        for number in (self.daemons[node].pid, *self._of_jobs(node)):
            _kill(number)
        self.daemons.pop(node).wait()

    def clear(self) -> None:
        """Cancels all jobs, starts nodes that were killed, and waits until both are idle."""
        self.ask("scancel", "--user=root")
        for node in NODES:
            if node not in self.daemons:
                self.start_node(node)
        self._await(lambda: not self.queue() and self.idle() == set(NODES), "an empty queue")

    def end(self) -> None:
        """Ends the daemons, and whatever of their jobs is left."""
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in reversed(self.daemons.values()):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        soon(lambda: not any(map(_kill, alive(self._sign()))), within_s=10)

    def _sign(self) -> str:
        return f"SLURM_CONF={self.folder / 'slurm.conf'}"

    def _of_jobs(self, node: str) -> list[int]:
        """Processes of the node's jobs, and those that Slurm started them by."""
        jobs = set(alive(f"SLURMD_NODENAME={node}\0")) & set(alive(self._sign()))
        return [*(set(map(parent, jobs)) & set(alive("slurmstepd"))), *jobs]

    def _is_served(self, end: str) -> bool:
        return subprocess.run(["munge", "-n", "-S", end], capture_output=True).returncode == 0

    def _daemon(self, *command: str, name: str = "") -> None:
        with (self.folder / "output").open("ab") as output:
            self.daemons[name or command[0]] = subprocess.Popen(
                command,
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the tests, which end it
            )

    def _await(self, condition: Callable[[], object], what: str) -> None:
        if not soon(condition, within_s=60):
            raise RuntimeError(f"no {what}: {(self.folder / 'output').read_text()[-2000:]}")


def missing() -> str | None:
    """Why there can be no Slurm, after an attempt to install it; None once it can be started."""
    if os.geteuid() != 0:
        return "only root can start the daemons of Slurm"
    if not _has_all() and (failure := install(*PACKAGES)):
        return f"needs Slurm and munge, and {failure}"
    return None if _has_all() else "Slurm was installed and still is not there"


def made(folder: Path) -> Slurm:
    """A configured Slurm, not started."""
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    subprocess.run(["mungekey", "--create", f"--keyfile={folder}/munge.key"], check=True)
    ports = _free_ports(3)
    (folder / "slurm.conf").write_text(
        CONF.format(
            folder=folder,
            host=socket.gethostname().partition(".")[0],
            controller_port=ports[0],
            ports=ports[1:],
            node_timeout=NODE_TIMEOUT_S,
        )
    )
    devices = [f"NodeName=n1 Name=gpu File={device}" for device in GPUS]
    (folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *devices, ""]))
    return Slurm(folder)


def _has_all() -> bool:
    # daemons are in /usr/sbin, which may not be on the path of others than root
    return all(map(shutil.which, PROGRAMS))


def _kill(number: int) -> bool:
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
