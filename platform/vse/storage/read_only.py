"""A read-only view of a workspace's folder, for estimates and dry runs."""

import contextlib
import math
from collections.abc import Generator

from vse.errors import NotMadeError
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle


class SealedFolder(Folder):  # pyrefly: ignore[bad-class-definition]  # `slots=True` is the base's
    """A folder that can only be read. A stage opens it if it is complete; otherwise NotMadeError is raised."""

    __slots__ = ()

    def child(self, *names: str) -> "SealedFolder":
        """The folder below this one, read-only too."""
        return SealedFolder(Folder.child(self, *names).uri)

    @contextlib.contextmanager
    def locked(self, wait: float = math.inf) -> Generator[LeaseHandle]:
        """Reading a complete folder needs no lock. Raises NotMadeError if it is incomplete."""
        if not self.is_committed():
            raise NotMadeError(self.uri)
        yield LeaseHandle()

    def write_bytes(self, name: str, data: bytes) -> None:
        """Raises NotMadeError."""
        raise NotMadeError(self.uri)

    def delete(self, name: str) -> None:
        """Raises NotMadeError."""
        raise NotMadeError(self.uri)
