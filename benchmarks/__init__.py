"""The benchmark: cudalock, uv and pip on one snapshot of real pages, over a loopback server with a chosen delay."""
