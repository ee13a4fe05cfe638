"""Rendered scenes: compositions of things, captions that are true of them, and the truth of any caption."""
