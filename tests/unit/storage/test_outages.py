"""Requests while a server is in trouble, by a clock that only pauses move."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from vse.storage import outages
from vse.storage.outages import LONGEST_PAUSE, NEVER_REACHED, OUTAGE, Server


class Clock:
    """Time that passes in pauses, and in requests that take `each` seconds."""

    def __init__(self, each: float = 0.0) -> None:
        self.now, self.each, self.pauses = 1000.0, each, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(outages, "time", clock)
    return clock


def refused(status: int, code: str) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetObject")


def failing(clock: Clock, error: Exception, seconds: float) -> Callable[[Any], str]:
    """A request that fails for so many seconds."""
    until = clock.now + seconds

    def request(client: Any) -> str:
        assert client == "client"
        clock.now += clock.each
        if clock.now < until:
            raise error
        return "answer"

    return request


UNREACHABLE = EndpointConnectionError(endpoint_url="http://s3")
PASSING = [
    refused(503, "SlowDown"),
    refused(500, "InternalError"),
    refused(400, "RequestTimeout"),
    refused(429, ""),
    UNREACHABLE,
    ReadTimeoutError(endpoint_url="http://s3"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: f"{type(error).__name__} {error}"[:60])
def test_minutes_of_trouble_are_waited_out_however_often_they_come(clock: Clock, error: Exception) -> None:
    server = Server("client", answered=True)
    for _ in range(20):  # botocore's budget lasts for three such requests
        assert server.ask(failing(clock, error, OUTAGE - LONGEST_PAUSE), "s3://b/a") == "answer"
    assert max(clock.pauses) <= LONGEST_PAUSE
    assert len(clock.pauses) < 20 * 60  # pauses grow


@pytest.mark.parametrize("each", [0.0, 60.0])
def test_after_that_the_error_is_raised(clock: Clock, each: float) -> None:
    clock.each = each
    server, began = Server("client", answered=True), clock.now
    with pytest.raises(EndpointConnectionError):
        server.ask(failing(clock, UNREACHABLE, 1e9), "s3://b/a")
    assert OUTAGE <= clock.now - began <= OUTAGE + max(each, 1e-6)


def test_a_server_that_never_answered_is_waited_for_shortly(clock: Clock) -> None:
    server, began = Server("client"), clock.now
    with pytest.raises(EndpointConnectionError):
        server.ask(failing(clock, UNREACHABLE, 1e9), "s3://b/a")
    assert clock.now - began == pytest.approx(NEVER_REACHED)
    with pytest.raises(ClientError):  # a refusal is an answer
        server.ask(failing(clock, refused(403, "AccessDenied"), 1e9), "s3://b/a")
    assert server.ask(failing(clock, UNREACHABLE, 2 * NEVER_REACHED), "s3://b/a") == "answer"


@pytest.mark.parametrize(
    "error", [refused(404, "NoSuchKey"), refused(412, "PreconditionFailed"), refused(501, ""), NoCredentialsError()]
)
def test_what_does_not_pass_is_raised_at_once(clock: Clock, error: Exception) -> None:
    with pytest.raises(type(error)):
        Server("client", answered=True).ask(failing(clock, error, 1e9), "s3://b/a")
    assert clock.pauses == []


def test_one_attempt_may_be_asked_for(clock: Clock) -> None:
    with pytest.raises(EndpointConnectionError):
        Server("client", answered=True).ask(failing(clock, UNREACHABLE, 1e9), "s3://b/a", outage=0.0)
    assert clock.pauses == []


def test_there_is_one_warning_of_an_outage(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("client", answered=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            server.ask(failing(clock, UNREACHABLE, 60.0), "s3://b/a")
    (line,) = caplog.messages
    assert line.startswith('s3://b/a: Could not connect to the endpoint URL: "http://s3"; trying again for 29')
    server.ask(failing(clock, UNREACHABLE, 1.0), "s3://b/a")
    assert len(caplog.messages) == 1
