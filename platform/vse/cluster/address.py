"""Whether a cluster answers at an address, found within seconds: `ray.init` tries for a quarter of an hour."""

import os
import socket

from vse.cluster import ray_private
from vse.errors import InputError

SECONDS = 5.0  # for a connection, and again for the first bytes
_CLIENT = "ray://"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and no settings of ours
_SETTINGS = 4  # the kind of frame that every server of HTTP/2, such as those of gRPC, answers with


def check_answers(address: str, named: str) -> None:
    """Connect to `address` (host:port, ray://host:port, or auto) and see that gRPC is spoken there.

    Args:
        address: As `ray.init` takes it.
        named: The setting it comes from, for errors.

    Raises:
        InputError: The address is none of these.
        OSError: Nobody answers, or the host's name is unknown. ConnectionError where `auto` finds no cluster.
    """
    where = ray_private.address_of_cluster() if address == "auto" else address.removeprefix(_CLIENT)
    host, _, port = where.partition("?")[0].rstrip("/").rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"{named}: expected host:port, {_CLIENT}host:port, auto or local")
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        connection.sendall(_PREFACE)
        if connection.recv(4)[3:] != bytes([_SETTINGS]):
            raise ConnectionError("what listens there is not Ray")
