"""Objects on S3 that a job rewrites, each time on the condition that no other job has written them since."""

from dataclasses import dataclass, field

from vse.errors import InputError
from vse.storage.object_store import ObjectStore


@dataclass(slots=True)
class OwnedObject:
    """An object that one job writes at a time.

    A write whose answer was lost may have succeeded. The server then has a tag that the job never saw, and refuses
    every later write as if another job had been there. The content of unanswered writes is therefore kept until a
    later write succeeds, and an object with such a content still belongs to the job.

    Args:
        store: where the object is.
        name: of the object.
        tag: of the content that the next write replaces; "" if the object must not exist yet.
        unanswered: what writes without an answer may have left there.
    """

    store: ObjectStore
    name: str
    tag: str = ""
    unanswered: set[bytes] = field(default_factory=set)

    def read(self) -> bytes:
        """The content, which the next write replaces; empty if there is no such object."""
        try:
            content, self.tag = self.store.read_tagged(self.name)
        except FileNotFoundError:
            content, self.tag = b"", ""
        return content

    def write(self, data: bytes) -> None:
        """Replace the object. Raises as `write_once`."""
        while True:
            try:
                self.write_once(data)
                return
            except FileExistsError:
                if self.adopt() is None:
                    raise

    def write_once(self, data: bytes) -> None:
        """Replace the object if it still has the tag.

        Raises:
            FileExistsError: it has another one, of another job's write or of an unanswered one (see `adopt`).
            OSError, InputError: no answer came, or a refusal; the write may have succeeded nevertheless.
        """
        try:
            if self.tag:
                self.tag = self.store.replace(self.name, data, self.tag)
            else:
                self.tag = self.store.create(self.name, data)
        except FileExistsError:
            raise
        except (OSError, InputError):
            self.unanswered.add(data)
            raise
        self.unanswered.clear()

    def adopt(self) -> bytes | None:
        """Take over the tag of an unanswered write that succeeded.

        Returns:
            The content of the object; None if it is another job's.
        """
        if not self.unanswered:
            return None
        try:
            content, tag = self.store.read_tagged(self.name)
        except FileNotFoundError:
            return None
        if content not in self.unanswered or tag == self.tag:  # the tag was refused: a second try would be too
            return None
        self.tag = tag
        return content
