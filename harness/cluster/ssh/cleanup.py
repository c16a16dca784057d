"""Finds and removes what killed runs have left on the hosts of an ssh cluster.

While a run is active, the harness renews the run's lease every few seconds: it increments a number in the file `lease`
of the run's folder. If this number no longer changes, the run is a leftover. The folder of a run also contains the name
of the run's packet filter. A packet filter of the harness is a leftover if no folder contains its name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from harness.cluster.ssh.commands_on_hosts import Link
from harness.cluster.ssh.hosts import Host
from harness.cluster.ssh.preflight import ask
from harness.model.errors_and_exit_codes import ClusterTrouble

TABLE: Final = "harness_ssh_"  # prefix of the names of our packet filters
_ASK_S: Final = 30.0
_REMOVE_S: Final = 120.0
_LOOK_AGAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that a run whose harness has ended has left on a host.

    kind   "run" (a folder, and the processes that run in it) or "filter" (packet filter)
    host   the host
    name   path of the folder; for a filter, "TOOL TABLE"
    run    the run's id and the node; empty for a filter
    since  creation time, UTC; empty for a filter
    """

    kind: str
    host: Host
    name: str
    run: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    """The folder of a run on a host.

    guarded  whether the run's watchdog is running
    running  whether the run's broker is running
    lease    the number that the harness increments to renew the lease
    filter   "TOOL TABLE" of the run's packet filter
    since    creation time, UTC
    """

    folder: str
    guarded: bool
    running: bool
    lease: str
    filter: str
    since: str


def leftovers(hosts: Sequence[Host]) -> list[Leftover]:
    """Returns everything that runs whose harness has ended have left on the hosts.

    If a run may still be active, waits 10 s to see whether its lease changes. Raises ClusterTrouble or Missing if a
    host does not answer.
    """
    with ThreadPoolExecutor(len(hosts)) as pool:
        return [one for found in pool.map(_on, hosts) for one in found]


def remove(leftover: Leftover) -> None:
    """Removes one leftover: processes, files and filters. May be called more than once. Raises ClusterTrouble."""
    link = Link(leftover.host)
    try:
        if leftover.kind == "run":
            ask(link, _REMOVE_S, "remove", leftover.name)
        else:
            ask(link, _ASK_S, "unfilter", "", *leftover.name.split(" "))
    finally:
        link.close()


def _on(host: Host) -> list[Leftover]:
    link = Link(host)
    try:
        link.connect()
        runs, filters = read(ask(link, _ASK_S, "survey", host.folder))
        live: set[str] = set()
        if any(run.guarded for run in runs):
            time.sleep(_LOOK_AGAIN_S)
            before = {run.folder: run.lease for run in runs}
            runs, filters = read(ask(link, _ASK_S, "survey", host.folder))
            live = {run.folder for run in runs if run.guarded and before.get(run.folder) != run.lease}
    finally:
        link.close()
    named = {run.filter for run in runs}
    return [
        *(
            Leftover("run", host, run.folder, run.folder.rpartition("/")[2], run.since)
            for run in runs
            if run.folder not in live
        ),
        *(Leftover("filter", host, name) for name in filters if name not in named),
    ]


def read(answer: str) -> tuple[list[_Run], list[str]]:
    """Parses the output of the command `survey` of host_commands.sh.

    Returns (runs, "TOOL TABLE" of each packet filter). Raises ClusterTrouble if the output is malformed.
    """
    runs, filters = [], []
    for line in answer.splitlines()[1:]:
        words = line.split(" ", 7)
        if words[0] == "run" and len(words) == 8:
            _, guarded, running, lease, tool, table, since, folder = words
            runs.append(_Run(folder, guarded == "yes", running == "yes", lease, f"{tool} {table}", since))
        elif words[0] == "table" and len(words) == 3:
            filters.append(f"{words[1]} {words[2]}")
        else:
            raise ClusterTrouble(f"a host sent an answer that cannot be parsed: {line[:200]}")
    return runs, filters
