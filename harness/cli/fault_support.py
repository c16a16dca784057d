"""Determines which faults can be injected into which kind of cluster from this machine, and why others cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.cluster.table import CLUSTERS, imported, reasons
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS

CLIENTS_ONLY: Final = "only clients can be targeted"


@dataclass(frozen=True, slots=True)
class Row:
    """A fault verb, such as kill or isolate.

    targets  the targets that the verb accepts
    aliases  short names that stand for this verb and one target
    needs    names of the capabilities that a cluster must have for this fault, if it acts on nodes
    refused  kind of cluster -> why the fault does not work on it, and what to do about it; "" if it works
    """

    verb: str
    summary: str
    targets: tuple[str, ...]
    aliases: tuple[str, ...]
    needs: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of cluster, or a variant of one, such as "local --network loopback".

    takes_faults  whether any faults can be injected into this kind of cluster
    refused       capability -> why this machine cannot provide the capability; empty or missing if it can
    """

    cluster: type
    takes_faults: bool
    refused: Mapping[type, str]


def place_names() -> list[str]:
    """Returns the names of all kinds of cluster and their variants, such as "local --network loopback"."""
    return [name for kind in CLUSTERS.values() for name in kind.classes]


def places() -> dict[str, Place]:
    """Returns name -> `Place`, for every kind of cluster and its variants.

    Remote hosts are not checked; a run checks its hosts itself.
    """
    capabilities = frozenset(
        need for row in table.VERBS.values() for need in row.fault(next(iter(row.targets)), Timing()).needs
    )
    found = {}
    for name, kind in CLUSTERS.items():
        refused = reasons(name, capabilities)
        for place, path in kind.classes.items():
            found[place] = Place(imported(path), kind.takes_faults, refused)
    return found


def rows() -> list[Row]:
    """Returns a row for each fault verb, in the order of `nemesis.table.VERBS`."""
    everywhere = places()
    found = []
    for verb, row in table.VERBS.items():
        needs = row.fault(next(iter(row.targets)), Timing()).needs
        of_clients = row.fault(next(iter(CLIENT_TARGETS)), Timing()).needs if row.clients else needs
        found.append(
            Row(
                verb,
                row.summary,
                (*row.targets, *(("n1", "n2", "...") if row.nodes else ())),
                tuple(short for short, full in table.aliases().items() if full.partition(":")[0] == verb),
                tuple(need.__name__ for need in needs),
                {name: _refused(place, needs, of_clients) for name, place in everywhere.items()},
            )
        )
    return found


def _refused(place: Place, needs: tuple[type, ...], of_clients: tuple[type, ...]) -> str:
    why = _why_not(place, needs)
    return f"{why}; {CLIENTS_ONLY}" if why and not _why_not(place, of_clients) else why


def _why_not(place: Place, needs: tuple[type, ...]) -> str:
    if not place.takes_faults:
        return "it does not support faults; it has built-in bugs instead: --sim-bugs"
    missing = [need.__name__ for need in needs if not issubclass(place.cluster, need)]
    if missing:
        return f"it does not support {', '.join(missing)}"
    return "; ".join(place.refused[need] for need in needs if place.refused.get(need))


def text(listed: list[Row]) -> str:
    """Formats the rows as text for a terminal."""
    lines = []
    for row in listed:
        short = f"   ({', '.join(row.aliases)})" if row.aliases else ""
        lines += [
            f"{row.verb}{short}",
            f"    {row.summary}",
            f"    targets: {', '.join(row.targets)}",
        ]
        runs_on = [name for name, why in row.refused.items() if not why]
        lines.append(f"    runs on: {', '.join(runs_on) or 'no cluster of this machine'}")
        why = row.refused["local"]
        lines += [f"    not on local: {why}"] if why else []
    lines += ["", "list faults as VERB:TARGET, separated by commas: harness run --nemesis kill:leader,pause:client"]
    return "\n".join(lines)
