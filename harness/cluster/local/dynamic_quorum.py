"""A metadata quorum whose voters can be changed while it works (KIP-853, kraft.version 1): its servers, its changes.

The servers have been laid out for a quorum with fixed voters. Here they get the addresses of the controllers instead of
the voters, and the first voters get a snapshot at offset 0 that names them. Kafka's storage tool makes this snapshot;
it is the same for every voter. With an even number of controllers the last one is a spare: it follows the log and can
become a voter later. Source: Kafka documentation, KRaft, Provisioning nodes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.cluster.distribution import broker_config, combined_output
from harness.cluster.distribution.broker_config import Node
from harness.cluster.local.query_servers import ServerQueries
from harness.cluster.local.servers import Servers
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.protocol import quorum_voters

SINCE: Final = (3, 9, 0)
_LISTENER: Final = "CONTROLLER"
_SNAPSHOT: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_TIMEOUT_S: Final = 60.0
_CHANGE_S: Final = 5.0  # time that the leader gives a controller to show that it has caught up


def first_voters(controllers: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the controllers that are voters at the start: an odd number."""
    return tuple(controllers if len(controllers) % 2 else controllers[:-1])


def prepare(servers: Servers) -> dict[str, str]:
    """Changes the folders of servers that have not started yet.

    Returns controller -> id of its metadata directory. Raises ClusterTrouble.
    """
    layout = servers.layout
    ids = {one.name: _directory_id(servers.data(one.name)) for one in layout.controllers}
    for place in (*layout.controllers, *layout.brokers):
        path = servers.home(place.name) / "server.properties"
        path.write_text(without_voters(path.read_text(), layout.controllers))
        (servers.data(place.name) / _SNAPSHOT).unlink(missing_ok=True)
    voters = first_voters(layout.controllers)
    with tempfile.TemporaryDirectory(prefix="format-", dir=servers.folder.parent) as name:
        snapshot = _formatted(servers, voters, ids, Path(name))
        for voter in voters:
            copy = servers.data(voter.name) / _SNAPSHOT
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(snapshot, copy)
    return ids


def without_voters(properties: str, controllers: Sequence[Node]) -> str:
    """Returns a server's properties with the addresses of the controllers instead of the voters."""
    addresses = ",".join(f"{one.address}:{one.controller_port}" for one in controllers)
    named = f"controller.quorum.bootstrap.servers={addresses}"
    return re.sub(r"^controller\.quorum\.voters=.*$", named, properties, flags=re.MULTILINE)


def _directory_id(data: Path) -> str:
    lines = (data / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


def _formatted(servers: Servers, voters: Sequence[Node], ids: dict[str, str], work: Path) -> Path:
    """Runs Kafka's storage tool for the first voter. Returns the path of the snapshot that names all voters."""
    first = voters[0]
    text = (servers.home(first.name) / "server.properties").read_text()
    config, data = work / "server.properties", work / "data"
    config.write_text(re.sub(r"^log\.dirs=.*$", f"log.dirs={data}", text, flags=re.MULTILINE))
    log_name, log_text = broker_config.log_config(servers.version, str(work / "format.log"))
    (work / log_name).write_text(log_text)
    named = ",".join(f"{one.id}@{one.address}:{one.controller_port}:{ids[one.name]}" for one in voters)
    arguments = ["format", "-t", servers.cluster_id, "-c", str(config), "--initial-controllers", named]
    argv = broker_config.java_argv(
        servers.java, servers.jars, str(work / log_name), "kafka.tools.StorageTool", arguments
    )
    try:
        done = combined_output.run(argv, _TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ClusterTrouble(f"Kafka's storage tool did not end within {_TIMEOUT_S:.0f} s") from None
    if done.returncode or not (data / _SNAPSHOT).exists():
        raise ClusterTrouble(f"Kafka could not format a quorum whose voters can change: {done.stdout.strip()[-2000:]}")
    return data / _SNAPSHOT


# --- changes ------------------------------------------------------------------------------------------


def voters(queries: ServerQueries) -> list[str]:
    """Returns the names of the voters according to the quorum's leader. Empty if no controller leads."""
    states = [state for _, state in queries.quorum()]
    ids = max(states).voters if states else ()
    return [place.name for place in queries.layout.voters if place.id in ids]


def add(queries: ServerQueries, ids: Mapping[str, str], node: str) -> None:
    """Asks the quorum's leader to make a controller a voter. Raises ClusterTrouble with the leader's error.

    ids  controller -> id of its metadata directory, as `prepare` returned them
    """
    place = _controller(queries, ids, node)
    at = (_LISTENER, place.address, place.controller_port)
    _change(queries, quorum_voters.add_request(place.id, ids[node], *at, _CHANGE_S))


def remove(queries: ServerQueries, ids: Mapping[str, str], node: str) -> None:
    """Asks the quorum's leader to remove a voter; see `add`."""
    _change(queries, quorum_voters.remove_request(_controller(queries, ids, node).id, ids[node]))


def _controller(queries: ServerQueries, ids: Mapping[str, str], node: str) -> Node:
    if node not in ids:
        raise ClusterTrouble(f"{node}: the voters of this quorum cannot be changed")
    return next(place for place in queries.layout.controllers if place.name == node)


def _change(queries: ServerQueries, request: bytes) -> None:
    try:
        error = quorum_voters.error(queries.ask_leader(request))
    except ValueError as broken:
        raise ClusterTrouble(str(broken)) from None
    if error:
        raise ClusterTrouble(error)
