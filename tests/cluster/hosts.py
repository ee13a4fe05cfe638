"""Several hosts on one machine: network, process, mount and host-name namespaces with an address and an sshd each.

Everything lives in namespaces of its own, the bridge included: nothing of the machine's network changes, nothing can
leave it, and a host's `ray stop` sees the processes of that host only. A host ends with the process that holds it, and
that one with the process that made it.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.jobs.processes import ROOT

NETWORK, OPERATOR = "10.77.0", "10.77.0.1"
HOME, WORKSPACE = "/mnt/home", "/mnt/workspace"
_KINDS = ("--net", "--pid", "--mount", "--uts", "--ipc")
_PROGRAMS = ("sshd", "ssh", "ssh-keygen", "rsync", "ip", "unshare", "setpriv", "nsenter", "mount")

# What process 1 of a host does. $FOLDER holds the host's home, /tmp and settings; KEEP are folders that it needs from
# the machine (the environment, this repository) and that may lie below what is replaced.
_INIT = """
set -e
mount -t tmpfs none /mnt
mkdir /mnt/home /mnt/workspace /mnt/etc /mnt/keep
mount --bind $FOLDER/home /mnt/home
mount --bind $FOLDER/etc /mnt/etc
mount --bind $SHARED /mnt/workspace
number=0
for path in $KEEP; do number=$((number + 1)); mkdir /mnt/keep/$number; mount --bind $path /mnt/keep/$number; done
mount --bind $FOLDER/tmp /tmp
number=0
for path in $KEEP; do number=$((number + 1)); mkdir -p $path; mount --bind /mnt/keep/$number $path; done
mount -t tmpfs -o size=1g none /dev/shm
mount -t tmpfs none /run
mkdir /run/sshd
mount --bind /mnt/etc/passwd /etc/passwd
mount --bind /mnt/etc/hosts /etc/hosts
hostname $NAME
ip link set lo up
until ip -4 -o address show | grep -q ' $ADDRESS/'; do sleep 0.05; done
exec $SERVE
"""
_SSHD = """
ListenAddress {address}
HostKey /mnt/etc/host_key
AuthorizedKeysFile /mnt/etc/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
"""


def why_not() -> str:
    """The reason why hosts cannot be made here; empty where they can."""
    if os.name != "posix" or sys.platform != "linux" or os.geteuid() != 0:
        return "hosts are namespaces, which need Linux and root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: openssh-server, openssh-client, rsync, iproute2)"
    tried = subprocess.run(
        ["unshare", *_KINDS, "--fork", "--mount-proc", "mount", "-t", "tmpfs", "x", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"namespaces are refused ({tried.stderr.strip()})"


@dataclass
class Hosts:
    """`names` are hosts with an sshd at 10.77.0.11, .12, …; the operator, at .1, is where commands run.

    folder: becomes the home, /tmp and settings of each, so that what they leave can be read afterwards. All of them see
    `shared` as /mnt/workspace. To be used as a context manager.
    """

    folder: Path
    shared: Path
    names: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    _holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def addresses(self) -> dict[str, str]:
        """Name -> address of the hosts, without the operator."""
        return {name: f"{NETWORK}.{11 + place}" for place, name in enumerate(self.names)}

    def home(self, name: str) -> Path:
        """The home folder of a host, as this process sees it."""
        return self.folder / name / "home"

    def __enter__(self) -> "Hosts":
        try:
            self._make_keys()
            self._start("operator", OPERATOR, "sleep infinity")
            self._network("operator", "ip link add lan type bridge", f"ip address add {OPERATOR}/24 dev lan")
            self._network("operator", "ip link set lan up")
            for name, address in self.addresses.items():
                self._start(name, address, f"{shutil.which('sshd')} -D -E /tmp/sshd.log -f /mnt/etc/sshd_config")
                self._network("operator", f"ip link add {name} type veth peer name eth0 netns {self._first(name)}")
                self._network("operator", f"ip link set {name} master lan up")
                self._network(name, f"ip address add {address}/24 dev eth0", "ip link set eth0 up")
            for address in self.addresses.values():
                self._answers(address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name, holder in self._holders.items():
            if holder.poll() is None:
                os.kill(self._first(name), signal.SIGKILL)  # takes the whole host along
            holder.wait(timeout=30)

    def run(self, command: str, *, name: str = "operator", timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """A bash command on a host, in its home, with nothing of this process's environment but `environment`."""
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        values = {"HOME": HOME, "USER": "root", "PATH": path, "LANG": "C.UTF-8", **self.environment}
        settings = [f"{key}={value}" for key, value in values.items()]
        inside = ["nsenter", "--target", str(self._first(name)), "--net", "--pid", "--mount", "--uts", "--ipc"]
        return subprocess.run(
            [*inside, "env", "-i", *settings, "bash", "-c", f"cd && {command}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def processes(self, name: str) -> list[str]:
        """The command lines on a host, kernel threads and process 1 aside."""
        listed = self.run("ps -eo pid=,args=", name=name).stdout.splitlines()
        return [line.split(maxsplit=1)[1] for line in listed if line.split()[0] != "1"]

    def _first(self, name: str) -> int:
        """Process 1 of a host, as numbered outside."""
        holder = self._holders[name].pid
        return int(Path(f"/proc/{holder}/task/{holder}/children").read_text().split()[0])

    def _start(self, name: str, address: str, serve: str) -> None:
        folder = self.folder / name
        for part in ("home", "tmp", "etc"):
            (folder / part).mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        for file in ("key.pub", "host_key"):
            shutil.copy(self.folder / file, folder / "etc" / file)
        # as Debian writes it: a host's own name leads to 127.0.1.1, that of another to its address
        known = {**self.addresses, "operator": OPERATOR, name: "127.0.1.1", "localhost": "127.0.0.1"}
        settings = {
            "hosts": "".join(f"{ip} {host}\n" for host, ip in known.items()),
            "passwd": f"root:*:0:0:root:{HOME}:/bin/bash\nsshd:*:105:65534::/run/sshd:/bin/false\n",
            "sshd_config": _SSHD.format(address=address),
        }
        for file, text in settings.items():
            (folder / "etc" / file).write_text(text)
        needed = {ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
        keep = sorted(str(path) for path in needed if path.parts[1] in ("tmp", "mnt", "run"))
        values = {"FOLDER": folder, "SHARED": self.shared, "KEEP": " ".join(keep), "NAME": name}
        init = _INIT.replace("$SERVE", serve).replace("$ADDRESS", address)
        with (folder / "init.log").open("wb") as log:
            self._holders[name] = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    *_KINDS,
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "bash",
                    "-c",
                    init,
                ],
                env={"PATH": os.environ["PATH"], **{key: str(value) for key, value in values.items()}},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        _until(lambda: self._children(name) != "", f"{name} did not start")

    def _children(self, name: str) -> str:
        holder = self._holders[name]
        if holder.poll() is not None:
            raise RuntimeError(f"{name}: {(self.folder / name / 'init.log').read_text()}")
        return Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()

    def _network(self, name: str, *commands: str) -> None:
        for command in commands:
            subprocess.run(
                ["nsenter", "--target", str(self._first(name)), "--net", *shlex.split(command)], check=True, timeout=20
            )

    def _make_keys(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in ("key", "host_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / file)], check=True, timeout=20
            )

    def _answers(self, address: str) -> None:
        _until(
            lambda: self.run(f"bash -c '</dev/tcp/{address}/22'", timeout=20).returncode == 0,
            f"no sshd answers at {address}",
        )


def _until(met: Callable[[], bool], complaint: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)
