"""The client libraries by name. A new one is one file and one row in each table.

The rows are import paths, so that a library is loaded only where it is used. Both functions take the
client's settings as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from harness.model.errors import BadInput

# name -> opens a client of one process: an object with invoke(op) -> op, crash() and close()
CLIENTS: Final[dict[str, str]] = {
    "confluent": "harness.clients.confluent:open_client",
    "java": "harness.clients.java:open_client",
    "noop": "harness.clients.noop:open_client",
    "sim": "harness.sim.client:open_client",
}

# name -> opens the admin role: see `admin.AdminRole` for what it answers
ADMINS: Final[dict[str, str]] = {
    "confluent": "harness.clients.confluent:open_admin",
    "java": "harness.clients.confluent:open_admin",
    "noop": "harness.clients.noop:open_admin",
    "sim": "harness.sim.client:open_admin",
}


def opener(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """What opens a client of the library `name`. Raises BadInput when there is none of that name."""
    return _load(CLIENTS, name)


def admin_opener(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """What opens the admin role of the library `name`. Raises BadInput when there is none."""
    return _load(ADMINS, name)


def _load(rows: Mapping[str, str], name: str) -> Callable[[Mapping[str, Any]], Any]:
    if name not in rows:
        raise BadInput(f"no client library {name!r}; there are {', '.join(sorted(rows))}")
    module, _, attribute = rows[name].partition(":")
    found: Callable[[Mapping[str, Any]], Any] = getattr(import_module(module), attribute)
    return found
