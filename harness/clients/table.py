"""The client libraries by name. A new one is one file and one row here.

What a row names is an import path, so that a library is loaded only where it is used. Each function takes the
client's settings as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput


@dataclass(frozen=True, slots=True)
class Library:
    """queue     opens a client of one process: an object with invoke(op) -> op, crash() and close()
    admin     opens the admin role: see `admin.AdminRole` for what it answers
    problem   says what the library has against a client's settings, empty for nothing; asks no broker
    pipeline  as `queue`, for the pipeline's clients, which are of `pipeline.library`; empty: it has none
    package   on PyPI, for `--client-version`; empty: it does not come from there
    internal  not for `--client`
    written   how `--client` names it, where that is not the row's name
    """

    queue: str
    admin: str
    problem: str = ""
    pipeline: str = ""
    package: str = ""
    internal: bool = False
    written: str = ""


CLIENTS: Final[dict[str, Library]] = {
    "confluent": Library(
        queue="harness.clients.confluent.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.confluent.adapter:problem",
        pipeline="harness.clients.confluent.pipeline:open_client",
        package="confluent-kafka",
    ),
    "java": Library(
        queue="harness.clients.java.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.java.adapter:problem",
        pipeline="harness.clients.java.pipeline:open_client",
    ),
    "aiokafka": Library(
        queue="harness.clients.aiokafka.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.aiokafka.adapter:problem",
        package="aiokafka",
    ),
    # A program of the user's own, as "exec:COMMAND": see docs/use/your-own-client.md.
    "exec": Library(
        queue="harness.clients.exec.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.exec.adapter:problem",
        written="exec:COMMAND",
    ),
    "noop": Library(queue="harness.clients.noop:open_client", admin="harness.clients.noop:open_admin"),
    "sim": Library(
        queue="harness.sim.queue.client:open_client",
        admin="harness.sim.queue.client:open_admin",
        internal=True,
    ),
}


def row(name: str) -> Library:
    """The row of a client as a plan names it: a name of the table, or "exec:COMMAND". Raises KeyError."""
    return CLIENTS[name.partition(":")[0]]


def opener(name: str, logic: str = "queue") -> Callable[[Mapping[str, Any]], Any]:
    """What opens a client of the library `name`. Raises BadInput when there is none of that name.

    logic  what a workload calls the logic of its clients: queue or pipeline
    """
    return _load(_paths(logic), name)


def admin_opener(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """What opens the admin role of the library `name`. Raises BadInput when there is none."""
    return _load(_paths("admin"), name)


def problem_of(name: str) -> Callable[[Mapping[str, Any]], str]:
    """What asks the library `name` about settings. Raises BadInput when there is none."""
    return _load(_paths("problem"), name)


def library_of(process: int, slots: int, libraries: Sequence[str]) -> str:
    """Whose client a process is: slots take turns with the libraries, and a slot's processes are of one."""
    return libraries[process % slots % len(libraries)]


def _paths(role: str) -> dict[str, str]:
    """The import paths of a role, by library, of those that have it."""
    return {name: path for name, library in CLIENTS.items() if (path := getattr(library, role))}


def _load(paths: Mapping[str, str], name: str) -> Callable[[Mapping[str, Any]], Any]:
    path = paths.get(name.partition(":")[0])
    if path is None:
        raise BadInput(f"no client library {name!r}; there are {', '.join(sorted(paths))}")
    module, _, attribute = path.partition(":")
    function: Callable[[Mapping[str, Any]], Any] = getattr(import_module(module), attribute)
    return function
