"""Objects of S3 as files: read and written whole, written on a condition, listed; failures reported in one line.

A write is one PUT of bytes in memory, so readers see all of it or none, nothing is left behind by a writer that dies
(no multipart uploads), and repeating it after an answer that was lost does no harm. Throttling, server errors and
broken connections are tried again with growing pauses by botocore. Bodies that end early are read again here, and
writes that S3 rejects because another one to the same name is in progress (409) are repeated: a 409 does not say whose
object remains.
"""

import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from vse.errors import CredentialsError, InputError, StorageError, first_line

ATTEMPTS = 10  # of a request; with botocore's pauses about a minute and a half of trouble
READS = 5  # of a body that ends early
CONFLICTS = 10  # tries of a write that meets others to its name; with their pauses some ten seconds
PAGE = 1000  # names of one answer to a listing
_OPTIONS = {"region", "scheme", "endpoint_override"}
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_TAKEN = {"PreconditionFailed", "412"}
_BUSY = {"ConditionalRequestConflict", "OperationAborted", "409"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired", "InvalidToken"}
_REFUSED = {
    "NoSuchBucket": "no such bucket",
    "AccessDenied": "access denied; the credentials lack a right on this bucket",
    "403": "access denied; the credentials lack a right on this bucket",
    "InvalidAccessKeyId": "the access key is not known",
    "SignatureDoesNotMatch": "the secret key does not belong to the access key",
    "PermanentRedirect": "the bucket is in another region; add ?region=…",
    "InvalidBucketName": "not a valid bucket name",
    "AuthorizationHeaderMalformed": "the bucket is in another region; add ?region=…",
}


class _ConflictError(StorageError):
    """Another operation on the same name was under way; this one was not tried."""


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of an object without reading it; the tag changes whenever it is `written` (seconds since 1970)."""

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
    patience: float = field(default=60.0, compare=False)  # seconds that an answer may take before it is asked for again
    attempts: int = field(default=ATTEMPTS, compare=False)  # of a request

    @classmethod
    def open(cls, uri: str) -> "ObjectStore":
        """The place an address names: `s3://bucket/prefix`, with `?region=…` where the environment says none, and
        `&endpoint_override=host:port&scheme=http` for servers other than Amazon's. Raises InputError in one line."""
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
            raise InputError(f"{uri}: unknown option {unknown[0]}; known are {', '.join(sorted(_OPTIONS))}")
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
        """Bytes `start` to `stop` (outside, above `start`) of the object of that tag. Raises FileNotFoundError, and
        FileExistsError where it has been written since."""
        return self._get(name, Range=f"bytes={start}-{stop - 1}", IfMatch=tag)[0]

    def info(self, name: str) -> Info | None:
        """Size and tag, None where there is no such object."""
        try:
            with self._told(name):
                found = self._head(name)
        except FileNotFoundError:
            return None
        return Info(int(found["ContentLength"]), found["ETag"], found["LastModified"].timestamp())

    def write(self, name: str, data: bytes) -> str:
        """Write or replace an object; returns its tag."""
        return self._put(name, data)

    def create(self, name: str, data: bytes) -> str:
        """Write an object that must not be there yet. Raises FileExistsError; several writers: one succeeds."""
        return self._put(name, data, IfNoneMatch="*")

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """Write over the object of that tag. Raises FileExistsError where another writer came first, or deleted it."""
        try:
            return self._put(name, data, IfMatch=tag)
        except FileNotFoundError as error:
            raise FileExistsError(*error.args) from None

    def children(self) -> list[str]:
        """Names of objects and of folders directly below, unsorted."""
        head = f"{self.prefix}/" if self.prefix else ""
        found: list[str] = []
        for page in self._pages(head, Delimiter="/"):
            found += [each["Key"].removeprefix(head) for each in page.get("Contents", ())]
            found += [each["Prefix"].removeprefix(head).rstrip("/") for each in page.get("CommonPrefixes", ())]
        return [name for name in found if name]

    def walk(self) -> Iterator[tuple[str, Info]]:
        """Every object below with its size and tag, in the order of names."""
        head = f"{self.prefix}/" if self.prefix else ""
        for page in self._pages(head):
            for each in page.get("Contents", ()):
                yield (
                    each["Key"].removeprefix(head),
                    Info(int(each["Size"]), each["ETag"], each["LastModified"].timestamp()),
                )

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """Bytes of objects, None for those that are not there, by one listing."""
        found: dict[str, int | None] = dict.fromkeys(names)
        left = len(found)
        for name, info in self.walk():
            if name in found:
                found[name], left = info.size, left - 1
                if not left:
                    break
        return found

    def holds(self, name: str) -> bool:
        """Whether there is an object of that name, or any below it."""
        if name and self.info(name) is not None:
            return True
        key = self._key(name)
        with self._told(name):
            page = self._client().list_objects_v2(Bucket=self.bucket, Prefix=f"{key}/" if key else "", MaxKeys=1)
        return page["KeyCount"] > 0

    def delete(self, name: str) -> None:
        """Remove an object and all objects below it; nothing happens where there are none."""
        key = self._key(name)
        with self._told(name):
            self._client().delete_object(Bucket=self.bucket, Key=key)
        for page in self._pages(f"{key}/"):
            if some := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
                with self._told(name):
                    self._client().delete_objects(Bucket=self.bucket, Delete={"Objects": some, "Quiet": True})

    def _pages(self, head: str, **options: str) -> Iterator[dict[str, Any]]:
        with self._told(""):
            pages = self._client().get_paginator("list_objects_v2")
            options_of_all = {"Bucket": self.bucket, "Prefix": head, "PaginationConfig": {"PageSize": PAGE}}
            yield from pages.paginate(**options_of_all, **options)

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.prefix, name) if part)

    def _client(self) -> Any:
        return _client(self.region, self.endpoint, self.patience, self.attempts)

    def _head(self, name: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        place = {"Bucket": self.bucket, "Key": self._key(name)}
        try:
            return self._client().head_object(**place)
        except ClientError as error:
            if str(error.response["Error"].get("Code", "")) != "400":
                raise
        found = self._client().get_object(**place)  # an answer to HEAD has no body that would say what is wrong
        found["Body"].close()
        return found

    def _get(self, name: str, **options: str) -> tuple[bytes, str]:
        from botocore.exceptions import (
            ConnectionClosedError,
            FlexibleChecksumError,
            IncompleteReadError,
            ReadTimeoutError,
            ResponseStreamingError,
        )

        for attempt in range(READS):
            with self._told(name):
                found = self._client().get_object(Bucket=self.bucket, Key=self._key(name), **options)
                try:
                    return found["Body"].read(), found["ETag"]
                except (
                    ConnectionClosedError,
                    FlexibleChecksumError,
                    IncompleteReadError,
                    ReadTimeoutError,
                    ResponseStreamingError,
                ):
                    if attempt == READS - 1:
                        raise
            time.sleep(0.1 * 2**attempt)
        raise AssertionError("not reached")

    def _put(self, name: str, data: bytes, **condition: str) -> str:
        for attempt in range(CONFLICTS):
            try:
                with self._told(name):
                    answer = self._client().put_object(Bucket=self.bucket, Key=self._key(name), Body=data, **condition)
                    return str(answer["ETag"])
            except (FileExistsError, FileNotFoundError, _ConflictError) as error:
                # An answer that was lost is asked for again, and the second time our own object stands in the way.
                if tag := self.tag_of(name, {data}):
                    return tag
                if not isinstance(error, _ConflictError) or attempt == CONFLICTS - 1:
                    raise
            time.sleep(random.uniform(0.5, 1.0) * min(2.0, 0.1 * 2**attempt))
        raise AssertionError("not reached")

    def tag_of(self, name: str, written: Set[bytes]) -> str:
        """The tag of the object if it holds one of these, else nothing."""
        try:
            there, tag = self.read_tagged(name)
        except FileNotFoundError:
            return ""
        return tag if there in written else ""

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """What botocore raises, as the errors that files raise, in one line."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        where = f"{self.uri}/{name}" if name else self.uri
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
            _client.cache_clear()  # a client keeps that it found none; the next request looks again
            raise CredentialsError(
                f"{where}: no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in "
                "~/.aws, or run on an instance with a profile"
            ) from None
        except BotoCoreError as error:
            raise StorageError(f"{where}: {first_line(error)}") from None


@lru_cache(maxsize=32)
def _client(region: str, endpoint: str, patience: float, attempts: int) -> Any:
    """One client a process and place: threads may share it, and making one takes tens of milliseconds."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=min(10.0, patience),
        read_timeout=patience,
        max_pool_connections=32,
    )
    return boto3.Session().client("s3", region_name=region or None, endpoint_url=endpoint or None, config=config)
