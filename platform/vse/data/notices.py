"""What the readers of data sets say of a file: once in a process, for a job may read its source more than once."""

import functools
import logging

log = logging.getLogger(__name__)


@functools.cache
def notice(line: str) -> None:
    """Log a line, unless it was logged before."""
    log.info("%s", line)
