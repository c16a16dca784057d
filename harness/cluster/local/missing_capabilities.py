"""What the local cluster could do and a machine may not let it do: capability -> the reason, with what to do.

A reason is asked for when it is needed: some are found by trying.
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
    """The reasons for some capabilities; empty texts for what the machine allows."""
    return {need: WHY_NOT[need]() for need in needed if need in WHY_NOT}
