"""Which addresses the processes of a job listen on, read from /proc while it runs.

Every process that a job starts inherits a mark in its environment, so those that left the family are found too.
"""

import contextlib
import ipaddress
import os
import subprocess
import time
import uuid
from pathlib import Path

MARK = "VSE_TEST_MARK"
_LISTENING, _UNCONNECTED = "0A", "07"
_TABLES = {"tcp": _LISTENING, "tcp6": _LISTENING, "udp": _UNCONNECTED, "udp6": _UNCONNECTED}


def watch(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str, str, dict[str, str]]:
    """(exit status, stdout, stderr, address and port -> name of the process) of a command run to its end."""
    mark = uuid.uuid4().hex
    seen: dict[str, str] = {}
    with (folder / f"{mark}.out").open("w+") as out, (folder / f"{mark}.err").open("w+") as error:
        process = subprocess.Popen(
            command, cwd=folder, env={**environment, MARK: mark}, stdout=out, stderr=error, text=True
        )
        try:
            while process.poll() is None:
                seen |= listening(mark)
                time.sleep(0.15)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        error.seek(0)
        return process.returncode, out.read(), error.read(), seen


def listening(mark: str) -> dict[str, str]:
    """Address and port -> name of the process, for everything that marked processes listen on now."""
    owners = {inode: name for name, inodes in map(_sockets, _marked(mark)) for inode in inodes}
    found = {}
    for table, state in _TABLES.items():
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == state and words[9] in owners:
                address, _, port = words[1].partition(":")
                found[f"{table} {_address(address)} port {int(port, 16)}"] = owners[words[9]]
    return found


def outside(seen: dict[str, str]) -> dict[str, str]:
    """Those that are not on loopback."""
    return {where: name for where, name in seen.items() if not ipaddress.ip_address(where.split()[1]).is_loopback}


def _marked(mark: str) -> list[Path]:
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or it is not ours
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(entry)
    return found


def _sockets(process: Path) -> tuple[str, list[str]]:
    inodes, name = [], ""
    with contextlib.suppress(OSError):
        name = (process / "comm").read_text().strip()
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    inodes.append(target[8:-1])
    return name, inodes


def _address(text: str) -> str:
    """An address as /proc/net writes it (words of 32 bits, each backwards) as people do; IPv4 within IPv6 as IPv4."""
    data = b"".join(bytes.fromhex(text[k : k + 8])[::-1] for k in range(0, len(text), 8))
    address = ipaddress.ip_address(data)
    return str(getattr(address, "ipv4_mapped", None) or address)
