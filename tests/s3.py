"""A local server that speaks S3's protocol, and a proxy before it in which its answers go wrong."""

import http.client
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib import request

import pytest

BUCKET = "bucket"
STALLED = 15.0  # seconds
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}


def error(status: int, code: str) -> tuple[int, bytes]:
    """An answer as S3 gives it."""
    return status, f"<Error><Code>{code}</Code><Message>{code} it is</Message></Error>".encode()


@contextmanager
def server() -> Generator[str]:
    """host:port of a server with an empty bucket, and credentials for it in the environment.

    One at a time in a process: moto's servers there share their objects, so each forgets those of the last.
    """
    module = pytest.importorskip("moto.server")
    import boto3

    moto = module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()
    patch = pytest.MonkeyPatch()
    for name, value in KEYS.items():
        patch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        patch.delenv(name, raising=False)
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket=BUCKET)
    try:
        yield f"{host}:{port}"
    finally:
        patch.undo()
        moto.stop()


def address(place: str, prefix: str = "work-space") -> str:
    """The URI of a prefix in the bucket of a server at host:port."""
    return f"s3://{BUCKET}/{prefix}?region=us-east-1&scheme=http&endpoint_override={place}"


def address_of(request: pytest.FixtureRequest, place: str) -> str:
    """The URI of a prefix of a test's own."""
    return address(place, "".join(letter if letter.isalnum() else "-" for letter in request.node.name))


class Proxy:
    """Passes requests on to a server. `faults` says what happens to the next ones, one entry a request that fits.

    An entry: (method, what): `(status, body)` answers so without asking the server; "truncate" ends a body in its
    middle; "lose" lets the server do it and breaks the connection; "drop" breaks it before the server hears; "stall"
    does so after a while without an answer; "" is no fault. `ignored` are headers, in lower case, that the server does
    not get.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.faults: list[tuple[str, tuple[int, bytes] | str]] = []
        self.ignored: frozenset[str] = frozenset()
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}  # of the last request
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.place = f"127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self) -> None:
        """No more answers."""
        self.http.shutdown()
        self.http.server_close()

    def fault_of(self, method: str) -> tuple[int, bytes] | str | None:
        """The fault for this request, which is used up."""
        with self.lock:
            self.seen.append(method)
            for place, (which, what) in enumerate(self.faults):
                if which == method:
                    del self.faults[place]
                    return what
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body, proxy.headers = self._body(), dict(self.headers)
                fault = proxy.fault_of(self.command)
                if isinstance(fault, tuple):
                    self._answer(fault[0], {"Content-Type": "application/xml"}, fault[1])
                    return
                if fault in ("drop", "stall"):
                    time.sleep(STALLED if fault == "stall" else 0.0)
                    self._break()
                    return
                status, headers, data = self._forward(body)
                if fault == "lose":
                    self._break()
                elif fault == "truncate":
                    self._answer(status, headers, data, len(data) // 2)
                    self._break()
                else:
                    self._answer(status, headers, data)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "") == "chunked":
                    parts = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    while self.rfile.readline().strip():
                        pass
                    return b"".join(parts)
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
                connection = http.client.HTTPConnection(proxy.behind, timeout=30)
                dropped = {"expect", "transfer-encoding", *proxy.ignored}
                kept = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
                connection.request(self.command, self.path, body, {**kept, "Content-Length": str(len(body))})
                answer = connection.getresponse()
                data = answer.read()
                connection.close()
                return answer.status, dict(answer.getheaders()), data

            def _answer(self, status: int, headers: dict[str, str], data: bytes, most: int | None = None) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", str(len(data))) if self.command == "HEAD" else str(len(data))
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data[:most])

            def _break(self) -> None:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextmanager
def proxied(behind: str) -> Generator[Proxy]:
    """A proxy before a server."""
    proxy = Proxy(behind)
    try:
        yield proxy
    finally:
        proxy.close()
