"""A server of S3's protocol whose objects survive its death: `python -m tests.s3_on_disk FOLDER PORT`.

The protocol is moto's, conditional writes included; moto itself keeps objects in memory. Here a request that writes is
answered only when the object lies as a file at FOLDER/<bucket>/<key>, and a start reads all files back. So kill -9 at
any moment leaves every write that was answered, and of one that was not either all or nothing, as S3 does. Writes are
served one at a time, which also makes their conditions hold between two writers. No versions, no multipart uploads.
"""

import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
_NEW = ".new"  # folder of unfinished writes, no name that a bucket can have
_MARK = ".folder"  # the file of a key that ends in a slash, as some clients mark folders


class OnDisk:
    """The application before moto's; `folder` is what it serves."""

    def __init__(self, behind: Application, folder: Path) -> None:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        self.behind, self.folder = behind, folder
        self.store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self.lock = threading.Lock()
        (folder / _NEW).mkdir(parents=True, exist_ok=True)
        for bucket in sorted(path for path in folder.iterdir() if path.name != _NEW):
            self.store.create_bucket(bucket.name, "us-east-1")
            for file in sorted(path for path in bucket.rglob("*") if path.is_file()):
                self.store.put_object(bucket.name, _key_of(file, bucket), file.read_bytes())

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Serve one request; headers are sent after this returns, and so after the files are there."""
        if environ["REQUEST_METHOD"] not in ("PUT", "POST", "DELETE"):
            return self.behind(environ, start_response)
        path = environ["PATH_INFO"].encode("latin-1").decode()  # WSGI has bytes as text of that encoding
        bucket, _, key = path.lstrip("/").partition("/")
        with self.lock:
            answer = list(self.behind(environ, start_response))
            if bucket in self.store.buckets:
                (self.folder / bucket).mkdir(exist_ok=True)
                self._keep(bucket, key)
        return answer

    def _keep(self, bucket: str, key: str) -> None:
        """The files of a bucket as moto has its objects now, after a request for `key`; none: for several."""
        keys, folder = self.store.buckets[bucket].keys, self.folder / bucket
        file = folder / (key + _MARK if key.endswith("/") else key)
        if key in keys:
            new = self.folder / _NEW / uuid.uuid4().hex
            new.write_bytes(keys[key].value)
            file.parent.mkdir(parents=True, exist_ok=True)
            os.replace(new, file)
            return
        for each in [file] if key else [path for path in folder.rglob("*") if path.is_file()]:
            if each.is_file() and _key_of(each, folder) not in keys:
                each.unlink()


def _key_of(file: Path, bucket: Path) -> str:
    return file.relative_to(bucket).as_posix().removesuffix(_MARK)


def main() -> None:
    """Serve until killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    application = OnDisk(DomainDispatcherApplication(create_backend_app), folder)
    make_server("127.0.0.1", port, application, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
