"""Ray for this project: start, capacity and liveness of nodes."""
