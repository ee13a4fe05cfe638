"""Objects of S3 as files: read and written whole, written on a condition, listed; failures reported in one line.

A write is one PUT of bytes in memory, so readers see all of it or none, nothing is left behind by a writer that dies,
and repeating it after an answer that was lost does no harm. Only what is too large for one PUT is sent in parts, of
which a writer that dies leaves an unfinished upload. Throttling, server errors and broken connections are waited out
(`outages`). Bodies that end early are read again, and writes that S3 rejects because another one to the same name is in
progress (409) are repeated: a 409 does not say whose object remains.
"""

import contextlib
import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from vse.errors import CredentialsError, InputError, StorageError, first_line
from vse.storage.outages import OUTAGE, Server

READS = 5  # of a body that ends early, or whose checksum differs
CONFLICTS = 10  # attempts of a write while others write the same name; about ten seconds with the pauses
LARGEST_PUT = 5 * 2**30  # bytes that S3 takes in one request
PART = 2**29  # bytes in each request of a larger object
PAGE = 1000  # names in one answer to a listing
_OPTIONS = {"region", "scheme", "endpoint_override"}
_ABSENT = {"NoSuchKey", "404", "NotFound", "NoSuchUpload"}  # the last: one that is complete, if its answer was lost
_TAKEN = {"PreconditionFailed", "412"}
_BUSY = {"ConditionalRequestConflict", "OperationAborted", "409"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired", "InvalidToken"}
_REFUSED = {
    "NoSuchBucket": "no such bucket",
    "AccessDenied": "access denied; the credentials lack a right on this bucket",
    "403": "access denied; the credentials lack a right on this bucket",
    "InvalidAccessKeyId": "unknown access key; check AWS_ACCESS_KEY_ID or the profile",
    "SignatureDoesNotMatch": "the secret key does not belong to the access key",
    "PermanentRedirect": "the bucket is in another region; add ?region=…",
    "InvalidBucketName": "not a valid bucket name",
    "AuthorizationHeaderMalformed": "the bucket is in another region; add ?region=…",
}
_NO_TAG = f'"{"0" * 32}"'  # which no object of a few bytes has
_CONDITIONAL = set[tuple[str, str, str]]()  # bucket, region and endpoint whose server honours conditional writes
T = TypeVar("T")


class _ConflictError(StorageError):
    """Another operation on the same name was in progress, and this one was not carried out."""


@dataclass(frozen=True, slots=True)
class Info:
    """Size, tag and time of an object. The tag changes with every write; `written` is in seconds since 1970."""

    size: int
    tag: str
    written: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Objects below s3://bucket/prefix; names are relative to the prefix. It holds no connection and can be sent."""

    bucket: str
    prefix: str
    region: str = ""
    endpoint: str = ""
    patience: float = field(default=60.0, compare=False)  # seconds to wait for an answer
    outage: float = field(default=OUTAGE, compare=False)  # seconds of trouble to wait out

    @classmethod
    def open(cls, uri: str) -> "ObjectStore":
        """The store at `s3://bucket/prefix`, with `?region=…` if the environment names none, and
        `&endpoint_override=host:port&scheme=http` for servers other than Amazon's. Raises InputError."""
        parts = urlsplit(uri)
        if parts.scheme != "s3" or not parts.netloc:
            raise InputError(f"{uri}: cannot be opened; use a local path or s3://bucket/prefix")
        if parts.fragment or uri.endswith("#"):
            raise InputError(f"{uri}: a prefix cannot have a '#' in it")
        if "@" in parts.netloc:
            place = f"s3://{parts.netloc.rpartition('@')[2]}{parts.path}"
            raise InputError(
                f"{place}: keys do not belong in an address; put them where AWS tools look (environment, ~/.aws, "
                "instance profile)"
            )
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if unknown := sorted(options.keys() - _OPTIONS):
            raise InputError(f"{uri}: unknown option {unknown[0]}; expected {', '.join(sorted(_OPTIONS))}")
        override = options.get("endpoint_override", "")
        endpoint = override if not override or "://" in override else f"{options.get('scheme', 'https')}://{override}"
        return cls(parts.netloc, parts.path.strip("/"), options.get("region", ""), endpoint)

    @property
    def uri(self) -> str:
        """The address for messages."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def read(self, name: str) -> bytes:
        """The whole object. Raises FileNotFoundError."""
        return self._get(name)[0]

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        """The object and its tag. Raises FileNotFoundError."""
        return self._get(name)

    def read_range(self, name: str, start: int, stop: int, tag: str) -> bytes:
        """Bytes `start` up to `stop`, exclusive, of the object of that tag.

        Args:
            name: of the object, relative to the prefix.
            start: position of the first byte.
            stop: position after the last byte.
            tag: of the content that is read, as `info` returns it.

        Raises:
            FileNotFoundError: there is no such object.
            FileExistsError: the object was written since it had the tag.
        """
        return self._get(name, Range=f"bytes={start}-{stop - 1}", IfMatch=tag)[0]

    def info(self, name: str) -> Info | None:
        """Size, tag and time of an object; None if there is no such object."""
        try:
            with self._translated(name):
                head = self._head(name)
        except FileNotFoundError:
            return None
        return Info(int(head["ContentLength"]), head["ETag"], head["LastModified"].timestamp())

    def write(self, name: str, data: bytes) -> str:
        """Write or replace an object; returns its tag."""
        return self._put(name, data)

    def create(self, name: str, data: bytes) -> str:
        """Write a new object. Raises FileExistsError if there is one; of several writers one succeeds."""
        return self._put(name, data, IfNoneMatch="*")

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """Replace the object of that tag and return its new tag.

        Args:
            name: of the object, relative to the prefix.
            data: its new content.
            tag: of the content that is replaced.

        Raises:
            FileExistsError: the object was written or deleted since it had the tag.
        """
        try:
            return self._put(name, data, IfMatch=tag)
        except FileNotFoundError as error:
            raise FileExistsError(*error.args) from None

    def check_conditional_writes(self, name: str) -> None:
        """Check that the server honours the conditions of `create` and `replace`, once in a process.

        Args:
            name: of an object that does not exist and that no other process writes. If the check passes, it may exist
                afterwards.

        Raises:
            InputError: the server ignores a condition, or the bucket refuses the write.
            StorageError: the server knows no conditions, or there is no answer.
        """
        server = (self.bucket, self.region, self.endpoint)
        if server in _CONDITIONAL:
            return
        self.create(name, b"1")
        for header, write in (
            ("If-None-Match", lambda: self.create(name, b"2")),
            ("If-Match", lambda: self.replace(name, b"3", _NO_TAG)),
        ):
            try:
                write()
            except FileExistsError:
                continue
            with contextlib.suppress(OSError, InputError):
                self.delete(name)
            raise InputError(
                f"{self.uri}: the server ignores conditional writes ({header}), on which leases rest; use Amazon S3 or "
                "another server that answers 412 if the condition is not met"
            )
        _CONDITIONAL.add(server)

    def children(self) -> list[str]:
        """Names of objects and of folders directly below, unsorted."""
        head = f"{self.prefix}/" if self.prefix else ""
        names: list[str] = []
        for page in self._pages(head, Delimiter="/"):
            names += [each["Key"].removeprefix(head) for each in page.get("Contents", ())]
            names += [each["Prefix"].removeprefix(head).rstrip("/") for each in page.get("CommonPrefixes", ())]
        return [name for name in names if name]

    def walk(self) -> Iterator[tuple[str, Info]]:
        """Every object below with its size and tag, in the order of names."""
        head = f"{self.prefix}/" if self.prefix else ""
        for page in self._pages(head):
            for each in page.get("Contents", ()):
                info = Info(int(each["Size"]), each["ETag"], each["LastModified"].timestamp())
                yield each["Key"].removeprefix(head), info

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """Bytes of each object, None for missing ones, by one listing."""
        sizes = {name: info.size for name, info in self.walk()}
        return {name: sizes.get(name) for name in names}

    def holds(self, name: str) -> bool:
        """Whether there is an object of that name or below it."""
        if name and self.info(name) is not None:
            return True
        key = self._key(name)
        with self._translated(name):
            below = {"Bucket": self.bucket, "Prefix": f"{key}/" if key else "", "MaxKeys": 1}
            page = self._ask(name, lambda client: client.list_objects_v2(**below))
        return page["KeyCount"] > 0

    def delete(self, name: str) -> None:
        """Remove an object and all objects below it, if there are any."""
        key = self._key(name)
        with self._translated(name):
            self._ask(name, lambda client: client.delete_object(Bucket=self.bucket, Key=key))
        for page in self._pages(f"{key}/"):
            if some := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
                these = {"Bucket": self.bucket, "Delete": {"Objects": some, "Quiet": True}}
                with self._translated(name):
                    self._ask(name, lambda client, these=these: client.delete_objects(**these))

    def _pages(self, head: str, **options: str) -> Iterator[dict[str, Any]]:
        arguments = {"Bucket": self.bucket, "Prefix": head, "MaxKeys": PAGE, **options}
        while True:
            with self._translated(""):
                page = self._ask("", lambda client: client.list_objects_v2(**arguments))
            yield page
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def _ask(self, name: str, request: Callable[[Any], T]) -> T:
        return _server(self.region, self.endpoint, self.patience).ask(request, self._where(name), self.outage)

    def _where(self, name: str) -> str:
        return f"{self.uri}/{name}" if name else self.uri

    def _head(self, name: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        place = {"Bucket": self.bucket, "Key": self._key(name)}
        try:
            return self._ask(name, lambda client: client.head_object(**place))
        except ClientError as error:
            if str(error.response["Error"].get("Code", "")) != "400":
                raise
        # An answer to HEAD has no body that would say what is wrong.
        answer = self._ask(name, lambda client: client.get_object(**place))
        answer["Body"].close()
        return answer

    def _get(self, name: str, **options: str) -> tuple[bytes, str]:
        from botocore.exceptions import FlexibleChecksumError, IncompleteReadError

        def request(client: Any) -> tuple[bytes, str]:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(name), **options)
            return answer["Body"].read(), answer["ETag"]

        for attempt in range(READS):
            with self._translated(name):
                try:
                    return self._ask(name, request)
                except (FlexibleChecksumError, IncompleteReadError):
                    if attempt == READS - 1:
                        raise
            time.sleep(0.1 * 2**attempt)
        raise AssertionError("not reached")

    def _put(self, name: str, data: bytes, **condition: str) -> str:
        for attempt in range(CONFLICTS):
            try:
                with self._translated(name):
                    return self._send(name, data, condition)
            except (FileExistsError, FileNotFoundError, _ConflictError) as error:
                # If the answer of a first attempt was lost, our own object is in the way of the second.
                if tag := self.tag_of(name, {data}):
                    return tag
                if not isinstance(error, _ConflictError) or attempt == CONFLICTS - 1:
                    raise
            time.sleep(random.uniform(0.5, 1.0) * min(2.0, 0.1 * 2**attempt))
        raise AssertionError("not reached")

    def _send(self, name: str, data: bytes, condition: Mapping[str, str]) -> str:
        target: dict[str, Any] = {"Bucket": self.bucket, "Key": self._key(name)}
        if len(data) <= LARGEST_PUT:
            return self._ask(name, lambda client: client.put_object(**target, Body=data, **condition))["ETag"]
        checked = {**target, "ChecksumAlgorithm": "CRC32"}
        upload = self._ask(name, lambda client: client.create_multipart_upload(**checked))["UploadId"]
        target["UploadId"] = checked["UploadId"] = upload
        parts = list[dict[str, Any]]()
        try:
            for number, start in enumerate(range(0, len(data), PART), start=1):
                part = {"PartNumber": number, "Body": data[start : start + PART]}
                answer = self._ask(name, lambda client, part=part: client.upload_part(**checked, **part))
                digests = {key: answer[key] for key in ("ETag", "ChecksumCRC32") if key in answer}
                parts.append({"PartNumber": number, **digests})
            whole = {**target, "MultipartUpload": {"Parts": parts}, **condition}
            return self._ask(name, lambda client: client.complete_multipart_upload(**whole))["ETag"]
        except BaseException:
            with contextlib.suppress(Exception):  # S3 removes it by the rule of the bucket, if there is one
                replace(self, outage=0.0)._ask(name, lambda client: client.abort_multipart_upload(**target))
            raise

    def tag_of(self, name: str, written: Set[bytes]) -> str:
        """The tag of the object if its content is one of `written`, else an empty string."""
        try:
            there, tag = self.read_tagged(name)
        except FileNotFoundError:
            return ""
        return tag if there in written else ""

    @contextlib.contextmanager
    def _translated(self, name: str) -> Generator[None]:
        """Translate the exceptions of botocore to those of files, each with a text of one line."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        where = self._where(name)
        try:
            yield
        except ClientError as error:
            code = str(error.response["Error"].get("Code", ""))
            if code in _ABSENT:
                raise FileNotFoundError(where) from None
            if code in _TAKEN:
                raise FileExistsError(where) from None
            if code in _BUSY:
                raise _ConflictError(f"{where}: other writers keep changing it ({code})") from None
            if code in _EXPIRED:
                raise StorageError(f"{where}: the credentials have expired; renew them") from None
            if code in _REFUSED:
                raise InputError(f"{where}: {_REFUSED[code]}") from None
            raise StorageError(f"{where}: {error.response['Error'].get('Message') or code}") from None
        except (NoCredentialsError, PartialCredentialsError):
            _server.cache_clear()  # a client remembers that there were none
            raise CredentialsError(
                f"{where}: no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in "
                "~/.aws, or run on an instance with a profile"
            ) from None
        except BotoCoreError as error:
            raise StorageError(f"{where}: {first_line(error)}") from None


@lru_cache(maxsize=32)
def _server(region: str, endpoint: str, patience: float) -> Server:
    """One client per process and endpoint: threads share it, and creating one takes tens of milliseconds."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=min(10.0, patience),
        read_timeout=patience,
        max_pool_connections=32,
    )
    session = boto3.Session()
    return Server(session.client("s3", region_name=region or None, endpoint_url=endpoint or None, config=config))
