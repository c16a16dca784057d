"""A named cluster that several tests use."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
from collections.abc import Iterator
from typing import Any

from harness.cli.app import invoke
from harness.cluster.persistent import client
from tests.e2e.harness_command import harness


@contextlib.contextmanager
def persistent_cluster(*options: str) -> Iterator[str]:
    """Runs `harness cluster up` around the block; yields the cluster's name."""
    name = f"test-{secrets.token_hex(3)}"
    done = harness("cluster", "up", name, *options, timeout_s=240)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        yield name
    finally:
        if client.folder(name).exists():
            harness("cluster", "down", name, "--force", timeout_s=180)


def status(name: str) -> dict[str, Any]:
    """The data of `harness cluster status`, without the second that a new process takes."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert invoke(["cluster", "status", name, "--json"]) == 0
    (row,) = json.loads(printed.getvalue())
    return dict(row)
