"""Kills at random moments: what a run leaves after them must be what it leaves without them."""
