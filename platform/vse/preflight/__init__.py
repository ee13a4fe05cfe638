"""What would fail, found before it costs: the cluster file, the account, every node, the workspace, the tracker."""
