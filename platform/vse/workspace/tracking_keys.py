"""Names of parameters, tags and metrics that trackers accept."""

import re

KEY_LENGTH = 250  # characters; MLflow refuses longer names
_OTHER = re.compile(r"[^\w. :/-]", re.ASCII)
# MLflow refuses names that would be another path: two dots at their start, empty parts, `.` and `..`
_NO_PARTS = re.compile(r"^\.\.|^/|(?<=/)/|/$|(?:^|(?<=/))\.{1,2}(?=/|$)")


def clean_key(key: str) -> str:
    """A key that MLflow accepts: other characters, empty parts and dots as parts become underscores, long keys are cut.

    Keys that MLflow accepts stay as they are.
    """
    cut = _OTHER.sub("_", str(key))[:KEY_LENGTH]
    return _NO_PARTS.sub(lambda match: "_" * len(match.group()), cut) or "_"
