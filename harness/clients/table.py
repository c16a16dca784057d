"""The client libraries by name. A new one is one file and one row in each table.

The rows are import paths, so that a library is loaded only where it is used. Both functions take the
client's settings as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from harness.model.errors import BadInput

# name -> opens a client of one process: an object with invoke(op) -> op, crash() and close()
CLIENTS: Final[dict[str, str]] = {
    "aiokafka": "harness.clients.aiokafka.library:open_client",
    "confluent": "harness.clients.confluent.library:open_client",
    "java": "harness.clients.java.library:open_client",
    "noop": "harness.clients.noop:open_client",
    "sim": "harness.sim.queue.client:open_client",
}

# The same for the pipeline's clients, which are of `pipeline.library`.
PIPELINES: Final[dict[str, str]] = {
    "confluent": "harness.clients.confluent.pipeline:open_client",
    "java": "harness.clients.java.pipeline:open_client",
}

# What a workload calls the logic of its clients -> who has it.
LOGICS: Final[dict[str, dict[str, str]]] = {"queue": CLIENTS, "pipeline": PIPELINES}

# name -> opens the admin role: see `admin.AdminRole` for what it answers
ADMINS: Final[dict[str, str]] = {
    "aiokafka": "harness.clients.confluent.library:open_admin",
    "confluent": "harness.clients.confluent.library:open_admin",
    "java": "harness.clients.confluent.library:open_admin",
    "noop": "harness.clients.noop:open_admin",
    "sim": "harness.sim.queue.client:open_admin",
}

# name -> says what the library has against a client's settings, empty for nothing; asks no broker
PROBLEMS: Final[dict[str, str]] = {
    "aiokafka": "harness.clients.aiokafka.library:problem",
    "confluent": "harness.clients.confluent.library:problem",
    "java": "harness.clients.java.library:problem",
}


def opener(name: str, logic: str = "queue") -> Callable[[Mapping[str, Any]], Any]:
    """What opens a client of the library `name`. Raises BadInput when there is none of that name."""
    return _load(LOGICS[logic], name)


def admin_opener(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """What opens the admin role of the library `name`. Raises BadInput when there is none."""
    return _load(ADMINS, name)


def problem_of(name: str) -> Callable[[Mapping[str, Any]], str]:
    """What asks the library `name` about settings. Raises BadInput when there is none."""
    return _load(PROBLEMS, name)


def library_of(process: int, slots: int, libraries: Sequence[str]) -> str:
    """Whose client a process is: slots take turns with the libraries, and a slot's processes are of one."""
    return libraries[process % slots % len(libraries)]


def _load(rows: Mapping[str, str], name: str) -> Callable[[Mapping[str, Any]], Any]:
    if name not in rows:
        raise BadInput(f"no client library {name!r}; there are {', '.join(sorted(rows))}")
    module, _, attribute = rows[name].partition(":")
    found: Callable[[Mapping[str, Any]], Any] = getattr(import_module(module), attribute)
    return found
