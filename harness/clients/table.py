"""The table of client libraries, by name. To add a library, write its adapter and add a row here.

Rows contain import paths, so that a library is imported only if it is used. Each function that a row names has one
parameter: the client's settings as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput


@dataclass(frozen=True, slots=True)
class Library:
    """One row of the table: the import paths of a library's functions.

    queue     opens the client of one process: an object with invoke(op) -> op, crash() and close()
    admin     opens the admin role, an object with the methods of `admin.AdminRole`
    problem   returns why the library rejects a client's settings, or "" if it accepts them; contacts no broker
    pipeline  like `queue`, but for the pipeline workload; empty if the library does not support this workload
    app       like `queue`, but for the app workload; empty if the library does not support this workload
    share     like `queue`, but for the share workload; empty if the library does not support this workload
    package   name of the library on PyPI; empty if it is not on PyPI
    internal  whether the user cannot select the library with `--client`
    written   how the library is named in the value of `--client`; empty: by its name in the table
    """

    queue: str
    admin: str
    problem: str = ""
    pipeline: str = ""
    app: str = ""
    share: str = ""
    package: str = ""
    internal: bool = False
    written: str = ""


CLIENTS: Final[dict[str, Library]] = {
    "confluent": Library(
        queue="harness.clients.confluent.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.confluent.adapter:problem",
        pipeline="harness.clients.confluent.pipeline:open_client",
        app="harness.clients.app.client:open_client",
        share="harness.clients.confluent.share_consumer:open_client",
        package="confluent-kafka",
    ),
    "java": Library(
        queue="harness.clients.java.adapter:open_client",
        admin="harness.clients.confluent.adapter:open_admin",
        problem="harness.clients.java.adapter:problem",
        pipeline="harness.clients.java.pipeline:open_client",
        share="harness.clients.java.share_consumer:open_client",
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
        pipeline="harness.clients.exec.pipeline:open_client",
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
    """Returns the row for a client as a plan names it: by its name in the table, or "exec:COMMAND". Raises KeyError."""
    return CLIENTS[name.partition(":")[0]]


def opener(name: str, logic: str = "queue") -> Callable[[Mapping[str, Any]], Any]:
    """Returns the function that opens a library's client. Raises BadInput if no library has that name.

    logic  which client the workload needs: queue, pipeline, app or share
    """
    return _load(_paths(logic), name)


def admin_opener(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """Returns the function that opens a library's admin role. Raises BadInput if no library has that name."""
    return _load(_paths("admin"), name)


def problem_of(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Returns the function that checks settings for a library. Raises BadInput if the name is unknown."""
    return _load(_paths("problem"), name)


def library_of(process: int, slots: int, libraries: Sequence[str]) -> str:
    """Returns the name of the library that a process uses.

    The libraries are assigned to the slots in turn, and all processes of a slot use the same library.
    """
    return libraries[process % slots % len(libraries)]


def _paths(role: str) -> dict[str, str]:
    """Returns library name -> import path in this column of the table. Omits libraries without such a function."""
    return {name: path for name, library in CLIENTS.items() if (path := getattr(library, role))}


def _load(paths: Mapping[str, str], name: str) -> Callable[[Mapping[str, Any]], Any]:
    path = paths.get(name.partition(":")[0])
    if path is None:
        raise BadInput(f"unknown client library {name!r}; choose from {', '.join(sorted(paths))}")
    module, _, attribute = path.partition(":")
    function: Callable[[Mapping[str, Any]], Any] = getattr(import_module(module), attribute)
    return function
