"""Runs a Slurm cluster of two nodes on this machine, with its own munge, ports and folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers import system_packages
from tests.helpers.processes import alive, soon

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("munged", "mungekey", "munge", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")

NODES = ("n1", "n2")
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
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=2 RealMemory=1000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""


@dataclass
class Slurm:
    """A Slurm cluster on this machine. Its daemons are children of this process."""

    folder: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables by which Slurm's programs find this cluster; all its processes have them."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *command: str) -> str:
        """The output of one of Slurm's commands; raises CalledProcessError if it fails."""
        return subprocess.run(
            command, env={**os.environ, **self.variables},
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip

    def queue(self) -> list[str]:
        """Jobs that wait or run, each as `<id> <state> <node>`."""
        return self.ask("squeue", "-h", "-r", "-o", "%i %T %N").splitlines()

    def start_requeued(self, job: str) -> None:
        """Waits until a killed job is in the queue again, and starts it three seconds later.

        A node refuses to start a job in the same second in which it has killed it, and Slurm would
        try again only two minutes later.
        """
        self._await(lambda: any(line.startswith(f"{job} PENDING") for line in self.queue()), job)
        self.ask("scontrol", "update", f"jobid={job}", "StartTime=now+3")

    def idle(self) -> set[str]:
        """Names of the nodes that can take a job."""
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return {node for node, state in map(str.split, lines) if state == "idle"}

    def start(self) -> None:
        """Starts all daemons, and waits until both nodes can take a job."""
        key, end = self.folder / "munge.key", self.folder / "munge.socket"
        self._daemon(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={end}"),
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")),
        )
        served = ("munge", "-n", "-S", str(end))
        self._await(lambda: not subprocess.run(served, capture_output=True).returncode, "munged")
        self._daemon("slurmctld", "-D")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node)
        self._await(lambda: self.idle() == set(NODES), "both nodes")

    def clear(self) -> None:
        """Cancels all jobs, and waits until both nodes are idle."""
        self.ask("scancel", "--user=root")
        self._await(lambda: not self.queue() and self.idle() == set(NODES), "an empty queue")

    def end(self) -> None:
        """Ends the daemons, and all processes of jobs that are left."""
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        sign = f"SLURM_CONF={self.folder / 'slurm.conf'}"
        soon(lambda: not any(map(_kill, alive(sign))), within_s=10)

    def _daemon(self, *command: str) -> None:
        with (self.folder / "output").open("ab") as output:
            daemon = subprocess.Popen(
                command, env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,  # Ctrl-C is for the tests, which end it
            )  # fmt: skip
        self.daemons.append(daemon)

    def _await(self, condition: Callable[[], object], what: str) -> None:
        if not soon(condition, within_s=60):
            raise RuntimeError(f"no {what}: {(self.folder / 'output').read_text()[-2000:]}")


def missing() -> str | None:
    """Tries to install Slurm if need be; why it cannot be started, or None if it can."""
    if os.geteuid() != 0:
        return "only root can start the daemons of Slurm"
    return system_packages.missing(PROGRAMS, *PACKAGES)


def made(folder: Path) -> Slurm:
    """Configures a Slurm cluster in `folder`, and does not start it."""
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
        )
    )
    # what Slurm takes for GPUs of n1; n2 has none
    devices = [f"NodeName=n1 Name=gpu File={device}" for device in ("/dev/zero", "/dev/full")]
    (folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *devices, ""]))
    return Slurm(folder)


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
