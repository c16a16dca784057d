"""Starts a server alone on empty folders, to find out whether its version starts with its configuration at all.

The server gets the host and the settings of a server of the cluster that is stopped, but other ports, and it is the
only member of its cluster, which has a new cluster id. So it does not meet the other servers, and whoever asks the
server that is stopped does not get its answers.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from harness.cluster.distribution.broker_config import Node
from harness.cluster.local import servers, storage_format
from harness.cluster.local.layout import Layout, Place
from harness.cluster.local.query_servers import ServerQueries
from harness.cluster.local.servers import Servers
from harness.model.capabilities import Child

TRIAL_S: Final = 45.0
KILL_S: Final = 10.0
POLL_S: Final = 0.1
_FOLDER: Final = "trial"


def moved(place: Node, take_port: Callable[[], int]) -> Node:
    """Returns a server with other ports, without those of the wire proxy and of programs outside the cluster."""
    port, controller_port = (take_port() if used else 0 for used in (place.port, place.controller_port))
    return Node(place.name, place.id, place.address, port, controller_port)


def alone(settings: Servers, place: Node) -> Servers:
    """Returns the settings of a server that is alone in a new cluster, with folders of its own."""
    layout = settings.layout
    dedicated = place.name in {controller.name for controller in layout.controllers}
    alone_ = Layout(layout.brokers, (place,)) if dedicated else Layout((place,))
    folder = settings.folder.parent / _FOLDER
    return replace(settings, layout=alone_, folder=folder, cluster_id=storage_format.random_id())


def attempt(
    settings: Servers,
    place: Place,
    take_port: Callable[[], int],
    spawn: Callable[[Sequence[str], str], Child],
    connect: Callable[[], socket.socket],
) -> str:
    """Returns "" if the server answers requests within TRIAL_S, else why not. Removes everything afterwards.

    take_port  returns a free port
    spawn      starts a process on the server's host: (command line, path of the file for its output)
    connect    creates a TCP socket in the cluster's network
    """
    if not isinstance(place, Node) or settings.template is None:
        return "not tried: with ZooKeeper, an empty server needs an empty ZooKeeper"
    place = moved(place, take_port)
    trial = alone(settings, place)
    shutil.rmtree(trial.folder, ignore_errors=True)
    trial.folder.mkdir()
    child = None
    try:
        trial.lay_out(place)
        child = spawn(trial.argv(place), str(trial.home(place.name) / servers.STDOUT))
        return _outcome(trial, place, child, ServerQueries(trial.layout, connect))
    finally:
        if child is not None:
            child.signal(signal.SIGKILL)
            child.wait(KILL_S)
        shutil.rmtree(trial.folder, ignore_errors=True)


def _outcome(trial: Servers, place: Node, child: Child, queries: ServerQueries) -> str:
    deadline = time.monotonic() + TRIAL_S
    while time.monotonic() < deadline:
        answers = not queries.silent() if trial.layout.controllers else queries.view(place) is not None
        if answers:
            return ""
        code = child.poll()
        if code is not None:
            return f"it ended with code {code}: {trial.last_error(place.name)}"
        time.sleep(POLL_S)
    return f"it did not answer within {TRIAL_S:.0f} s: {trial.last_error(place.name)}"
