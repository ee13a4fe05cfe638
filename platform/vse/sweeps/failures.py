"""Why trials end without a result. The kind decides whether a trial is retried; the message is for readers."""

from enum import StrEnum


class FailureKind(StrEnum):
    """Why a trial ended without a result, as the ledger keeps it next to the message."""

    ERROR = "error"  # its code raised
    REFUSED = "refused"  # wrong input, or a disk or cluster that fails every trial
    DIVERGED = "diverged"  # its training would diverge again
    NODE_LOST = "node_lost"
    NODE_FAULT = "node_fault"  # a full disk or a dead GPU of its node (see `sick_nodes`)
    NO_RESOURCES = "no_resources"  # its workers found none while other trials had theirs
    NOT_STARTED = "not_started"  # its process had not let go of the trial before
    TAKEN_OVER = "taken_over"  # another job continued its run

    def describe(self, message: str) -> str:
        """The message with what the kind adds to it."""
        return f"{_TEXTS[self]}: {message}" if self in _TEXTS else message

    @property
    def is_innocent(self) -> bool:
        """Whether such an end says nothing about the trial itself."""
        return self in (self.NODE_LOST, self.NODE_FAULT, self.NOT_STARTED, self.TAKEN_OVER)


_TEXTS = {
    FailureKind.DIVERGED: "the training diverged",
    FailureKind.NODE_LOST: "the node of the trial was lost",
    FailureKind.NODE_FAULT: "the node of the trial is at fault",
    FailureKind.NO_RESOURCES: "no resources for its workers",
    FailureKind.NOT_STARTED: "its process did not release the previous trial in time",
    FailureKind.TAKEN_OVER: "another job took over its training",
}
