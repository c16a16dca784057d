"""Describes which client libraries a run used, from its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clients.table import library_of

DEFAULT: Final = ("confluent",)
SLOTS_SHOWN: Final = 8


def libraries(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the client libraries of a run. If there are several, the worker slots use them in turn.

    Plans of earlier versions contain only one library.
    """
    named = plan.get("client", DEFAULT)
    found = named.split(",") if isinstance(named, str) else named
    return tuple(map(str, found)) if isinstance(found, list | tuple) and found else DEFAULT


def slots(plan: Mapping[str, Any]) -> dict[str, list[int]]:
    """Returns library -> numbers of the worker slots that use it."""
    named, count = libraries(plan), plan.get("concurrency")
    found: dict[str, list[int]] = {name: [] for name in named}
    for slot in range(count if isinstance(count, int) and count > 0 else len(named)):
        found[library_of(slot, slot + 1, named)].append(slot)
    return found


def client_text(plan: Mapping[str, Any]) -> str:
    """Describes the client libraries of a run, and their version.

    Returns "" if the run used the default library, without a particular version.
    """
    named = libraries(plan)
    version = plan.get("client_version") or ""
    if set(named) == set(DEFAULT):
        return f"client {named[0]} {version}" if version else ""
    if len(set(named)) == 1:
        return f"client {named[0]} {version}".rstrip()
    parts = []
    for name, of_library in slots(plan).items():
        shown = ", ".join(map(str, of_library[:SLOTS_SHOWN])) + (", ..." if len(of_library) > SLOTS_SHOWN else "")
        parts.append(f"{name} in slots {shown or 'none'}")
    of = f"a process's slot is its number modulo {plan.get('concurrency')}"
    return f"clients {'; '.join(parts)} ({of}{'; versions ' + version if version else ''})"
