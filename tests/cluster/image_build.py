"""The instructions of a Dockerfile, carried out in a folder instead of by a container daemon.

The folder holds a Debian root made by debootstrap, as `FROM debian:bookworm-slim` does. Each RUN is executed with that
root, its own mounts and process numbers, the variables of ARG and ENV before it, and the user of USER.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.jobs.processes import ROOT

_MOUNT = re.compile(r"^--mount=type=secret,id=pip,target=(\S+)\s+")
_PROGRAMS = ("debootstrap", "unshare", "chroot", "mount")
MIRROR = "http://deb.debian.org/debian"  # that of Debian's own image


def why_not() -> str:
    """The reason why no image can be built here; empty if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a root of its own needs Linux and root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """(instruction, its arguments) of a Dockerfile, continued lines joined and comments left out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, " ".join(rest.split())


def pip_settings() -> tuple[str, list[Path]]:
    """A pip.conf with what pip uses on this machine, and the paths on this machine that it names."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    values = dict(re.findall(r"^(?:global\.|:env:\.)([\w-]+)='(.*)'$", listed, re.MULTILINE))
    text = "[global]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    named = {Path(path) for path in re.findall(r"(?:file://)?(/[\w./-]+)", re.sub(r"https?://\S+", "", text))}
    # an index in a folder links to files next to itself
    return text, sorted({path if path.is_file() else Path(*path.parts[:3]) for path in named if path.exists()})


@dataclass
class Image:
    """A root folder that instructions are carried out in."""

    root: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    _variables: dict[str, str] = field(default_factory=dict)
    _given: dict[str, str] = field(default_factory=dict)
    _folder: str = "/"
    _user: str = "root"

    def build(self, dockerfile: str) -> None:
        """Carry out all instructions. Raises AssertionError with the output of a RUN that fails."""
        self._variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        for name, rest in instructions(dockerfile):
            match name:
                case "FROM":
                    suite = rest.removeprefix("debian:").removesuffix("-slim")
                    self._call("debootstrap", "--variant=minbase", suite, str(self.root), MIRROR)
                case "ARG":
                    key, _, default = rest.partition("=")
                    self._given[key] = self.arguments.get(key, default)
                case "ENV":
                    for word in shlex.split(rest):
                        key, _, value = word.partition("=")
                        self._variables[key] = value.replace("$PATH", self._variables["PATH"])
                case "WORKDIR":
                    self._folder = rest
                    (self.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
                case "USER":
                    self._user = rest
                case "COPY":
                    self._copy(*rest.split())
                case "RUN":
                    self.run(rest)
                case "CMD":
                    pass
                case _:
                    raise AssertionError(f"{name}: not understood here")

    def run(self, command: str, timeout: float = 3000) -> str:
        """What a command printed in the root, with the variables, the user and the folder that are set by now."""
        mounts = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        if secret := _MOUNT.match(command):
            command = command[secret.end() :]
            text, paths = pip_settings()
            (self.root / secret[1].lstrip("/")).write_text(text)
            for path in paths:
                inside = self.root / str(path).lstrip("/")
                (inside if path.is_dir() else inside.parent).mkdir(parents=True, exist_ok=True)
                if path.is_file():
                    inside.touch()
                mounts.append(f"mount --bind {path} {inside}")
        shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        variables = {**self._given, **self._variables}
        if self._user != "root":
            variables["HOME"] = f"/home/{self._user}"
        settings = [f"{key}={value}" for key, value in variables.items()]
        root = ["chroot", f"--userspec={self._user}", str(self.root)]
        inside = shlex.join(["env", "-i", *settings, *root, "/bin/sh", "-c", f"cd {self._folder} && {command}"])
        try:
            return self._call(
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-ec"),
                "\n".join(["mount --make-rprivate /", *mounts, f"exec {inside}"]),
                timeout=timeout,
            )
        finally:
            if secret:
                (self.root / secret[1].lstrip("/")).unlink()

    def _copy(self, *words: str) -> None:
        *sources, target = words
        into = self.root / self._folder.lstrip("/") / target
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, ignore=ignored)
            else:
                shutil.copy(ROOT / source, into)

    @staticmethod
    def _call(*command: str, timeout: float = 3000) -> str:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout
