"""Finds out which capabilities of the local cluster this machine lacks, why, and what to do about it.

Only needed capabilities are checked, because some checks try out the capability, for example by creating namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.cluster.local import clock_library, disks, link_faults, namespaces
from harness.model.capabilities import Clocks, Disks, Links, Network, SlowDisks

WHY_NOT: Final[Mapping[type, Callable[[], str]]] = {
    Network: lambda: _network(),
    Disks: lambda: disks.why_not(),
    SlowDisks: lambda: disks.why_not(),
    Links: lambda: link_faults.why_not(),
    Clocks: lambda: clock_library.why_not(),
}


def _network() -> str:
    allowed, reason = namespaces.available()
    return "" if allowed else f"namespaces are refused: {reason}"


def reasons(needed: Iterable[type] = tuple(WHY_NOT)) -> dict[type, str]:
    """Returns, for each needed capability, why this machine lacks it; an empty text if this machine has it."""
    return {need: WHY_NOT[need]() for need in needed if need in WHY_NOT}
