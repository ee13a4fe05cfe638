"""Requests to S3 that are repeated until a server in trouble answers again."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from vse.errors import first_line

log = logging.getLogger(__name__)

OUTAGE = 300.0  # seconds of trouble after which a request fails
NEVER_REACHED = 30.0  # ... if no server has ever answered this process: its address may be wrong
LONGEST_PAUSE = 10.0  # shorter than the term of a lease, so that its holder writes again before another job takes over
WARNED_AFTER = 3.0  # seconds of trouble
_FIRST_PAUSE = 0.1
_PASSING = {"RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete", "SlowDown", "InternalError"}
_STATUSES = {429, 500, 502, 503, 504}
T = TypeVar("T")


@dataclass
class Server:
    """A client of S3, and whether the server has answered it."""

    client: Any
    answered: bool = False
    warned: float = float("-inf")

    def ask(self, request: Callable[[Any], T], where: str, outage: float = OUTAGE) -> T:
        """The answer to a request.

        botocore would give up after about twelve seconds of pauses, and its budget of retries, which all requests of a
        process share, is used up by the fourth request that fails.

        Args:
            request: Sends a request with the client. It may be sent several times.
            where: What it is about, for the warning.
            outage: Seconds of trouble after which the error is raised; 0 for one attempt.

        Raises:
            ClientError: What the server refuses, or an error of the server that does not pass.
            BotoCoreError: If there is no answer, or nothing can be sent.
        """
        from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                answer = request(self.client)
            except ClientError as error:
                self.answered = True
                if not _passes(error):
                    raise
                caught: Exception = error
            except (ConnectionError, HTTPClientError) as error:
                caught = error
            else:
                self.answered = True
                return answer
            trouble, limit = time.monotonic() - began, outage if self.answered else min(outage, NEVER_REACHED)
            if trouble >= limit:
                raise caught
            if trouble >= WARNED_AFTER and time.monotonic() - self.warned >= OUTAGE:
                self.warned = time.monotonic()
                log.warning(
                    "%s: %s; trying again for %.0f seconds", where, first_line(caught).rstrip("."), limit - trouble
                )
            time.sleep(min(limit - trouble, random.uniform(0.5, 1.0) * pause))
            pause = min(LONGEST_PAUSE, 2 * pause)


def _passes(error: Any) -> bool:
    """Whether the server may answer the same request well later."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status in _STATUSES or error.response["Error"].get("Code", "") in _PASSING
