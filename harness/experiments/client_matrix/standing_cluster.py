"""The persistent cluster that all runs of a client matrix share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.cluster.persistent import client
from harness.model.errors_and_exit_codes import BadInput
from harness.persistent import lifecycle
from harness.plan import make_plan
from harness.plan.pipeline import CONSUMER_SESSION
from harness.run import attached_cluster

Say = Callable[[str], None]
NAME: Final = "client-matrix"


class StandingCluster:
    """A cluster with the wire proxy, and with short session timeouts for consumer groups.

    given  local:NAME uses a cluster that the user started; if empty, the harness starts its own, named client-matrix
    """

    def __init__(self, given: str, say: Say) -> None:
        kind, _, name = given.partition(":")
        if given and (kind != "local" or not name):
            raise BadInput(f"--cluster {given}: give local:NAME, where `harness cluster up NAME` started the cluster")
        self._own, self._name, self._say = not given, name or NAME, say
        self.written = f"local:{self._name}"
        fields = {"proxy": "clients", "broker_config": dict(CONSUMER_SESSION), "seed": 0}
        self._plan = make_plan.make(fields) if self._own else attached_cluster.plan_of(self._name)

    @property
    def kafka_version(self) -> str:
        return self._plan.kafka_version

    def up(self) -> None:
        """Starts the harness's own cluster if it is not up. Raises BadInput if the user's cluster is not up."""
        if not self._own:
            client.find(self._name, "local")
            return
        state = client.read(self._name)
        if state is None or not state.alive:
            lifecycle.start(self._name, self._plan, self._say)

    def down(self) -> None:
        """Stops the harness's own cluster. Leaves the user's cluster as it is."""
        if self._own and client.folder(self._name).exists():
            lifecycle.stop(self._name, True, self._say)
