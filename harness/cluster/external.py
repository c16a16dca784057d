"""A running cluster of the user's, reached at its bootstrap addresses. Faults can affect only the clients.

Clients run on this machine, as children of a supervisor process, without network namespaces of their own. The run uses
its own topics, group and transactional ids. Its topics and its group are deleted at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clients.connection import hidden
from harness.cluster.local import remote_process
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing
from harness.protocol.error_codes import ClientError

QUERY_TIMEOUT_S: Final = 15.0
# Broker settings that affect which guarantees Kafka gives.
GUARANTEE_SETTINGS: Final = (
    "unclean.leader.election.enable",
    "log.cleanup.policy",
    "log.flush.interval.messages",
)
# Default values that mean "never".
_NEVER: Final = {"log.flush.interval.messages": str((1 << 63) - 1)}
_CREDENTIALS: Final = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM")
_NOT_ALLOWED: Final = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster that answered.

    brokers   broker id -> node name, n<id>
    settings  setting -> value, for the settings in `GUARANTEE_SETTINGS` that the brokers reported
    """

    brokers: Mapping[int, str]
    settings: Mapping[str, str]


def find(bootstrap: str, connection: Mapping[str, str]) -> Found:
    """Queries the cluster's brokers and their settings.

    Raises Missing if no broker answers, BadInput if access is refused.
    """
    from harness.clients.confluent import probe

    try:
        seen = probe.look(bootstrap, connection, GUARANTEE_SETTINGS, QUERY_TIMEOUT_S)
    except ClientError as error:
        raise _refusal(bootstrap, error, connection) from None
    settings = {name: value for name, value in seen.settings.items() if value != _NEVER.get(name)}
    return Found({number: f"n{number}" for number in seen.brokers}, settings)


def _refusal(bootstrap: str, error: ClientError, connection: Mapping[str, str]) -> BadInput | Missing:
    reason = hidden(error.text, connection)
    if error.code in _CREDENTIALS:
        return BadInput(f"--bootstrap {bootstrap} refuses the credentials of --client-config ({reason})")
    if error.code == "_SSL":
        return BadInput(
            f"--bootstrap {bootstrap}: no TLS connection ({reason}); see ssl.ca.location in --client-config"
        )
    if error.code == "_INVALID_ARG":
        from harness.clients.confluent.settings_and_errors import unknown_property

        return BadInput(f"--client-config: {unknown_property(error.text) or reason}")
    hint = "" if connection else "; if it requires TLS or SASL, use --client-config"
    return Missing(f"--bootstrap {bootstrap}: no Kafka broker answers ({reason}): check the address{hint}")


def make(spec: ClusterSpec) -> ExternalCluster:
    """Returns the external cluster, after checking that it answers and would let the run create its topics.

    Raises BadInput, Missing.
    """
    brokers = find(spec.bootstrap, spec.connection).brokers
    cluster = ExternalCluster(spec.bootstrap, spec.connection, brokers, spec.work_dir)
    cluster.may_make(f"{spec.run}-0", spec.partitions_per_topic, spec.replication, spec.topic_config)
    return cluster


class ExternalCluster:
    """Satisfies the protocols Cluster and Hosts (harness.model.capabilities). `brokers`: broker id -> node name."""

    def __init__(
        self, bootstrap: str, connection: Mapping[str, str], brokers: Mapping[int, str], work_dir: Path
    ) -> None:
        self.bootstrap, self.brokers = bootstrap, dict(brokers)
        self.nodes = tuple(self.brokers.values())
        self._connection, self._work_dir = connection, work_dir
        self._control: Control | None = None

    def may_make(self, topic: str, partitions: int, replication: int, config: Mapping[str, str]) -> None:
        """Checks that the cluster would create a topic with these properties.

        Raises BadInput with the cluster's reason if not, Missing if the brokers do not answer.
        """
        from harness.clients.confluent import probe

        try:
            probe.try_topic(self.bootstrap, self._connection, topic, partitions, replication, config, QUERY_TIMEOUT_S)
        except ClientError as error:
            reason = hidden(error.text, self._connection)
            if error.code in _NOT_ALLOWED:
                raise BadInput(
                    f"--bootstrap {self.bootstrap}: no permission to create topics ({reason}): allow Create, "
                    "Delete, Describe, Read and Write on topics, Read on groups"
                ) from None
            if error.code.startswith("_"):
                raise Missing(
                    f"--bootstrap {self.bootstrap} answers, but the brokers that it advertises do not ({reason}): "
                    f"check its advertised.listeners; the brokers are {', '.join(self.nodes)}"
                ) from None
            raise BadInput(
                f"--bootstrap {self.bootstrap} refuses topics with {partitions} partitions, replication factor "
                f"{replication} and {dict(config)} ({reason}): see --replication and --min-insync-replicas"
            ) from None

    def up(self, progress: Callable[[str], None]) -> None:
        """Starts the supervisor, which is the parent process of the clients."""
        self._work_dir.mkdir(parents=True, exist_ok=True)
        self._control = Control(isolated=False, log=self._work_dir / "supervisor.log")
        progress(f"{len(self.nodes)} brokers at {self.bootstrap}: {', '.join(self.nodes)}")

    def down(self) -> None:
        """Stops the clients. May be called more than once."""
        control, self._control = self._control, None
        if control is not None:
            control.close()
            (self._work_dir / "supervisor.log").unlink(missing_ok=True)

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        raise ClusterTrouble(f"{node} belongs to an external cluster: commands cannot be run there")

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on this machine, for any `host`. `env` is added to this process's environment."""
        if self._control is None:
            raise ClusterTrouble("the cluster is not up")
        return remote_process.spawn(self._control, host, argv, env, fds, log)
