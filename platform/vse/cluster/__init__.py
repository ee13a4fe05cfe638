"""Ray as this project uses it: how it is started, what fits on it, and whether its nodes are alive."""
