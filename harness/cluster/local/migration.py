"""Steps of a migration from ZooKeeper to KRaft on a local cluster, and of the way back.

The controllers are part of the cluster's layout only from `provision` on. Their storage is formatted with the cluster's
id, which the brokers got from ZooKeeper. Source: Kafka 3.9 documentation, 6.10, ZooKeeper to KRaft Migration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.cluster.distribution import broker_config, migration_config
from harness.cluster.distribution.broker_config import Node
from harness.cluster.distribution.zookeeper import Keeper
from harness.cluster.local.servers import Servers
from harness.model.errors_and_exit_codes import ClusterTrouble

SHELL: Final = "org.apache.zookeeper.ZooKeeperMain"
SHELL_S: Final = 30.0
_ID: Final = "cluster.id="


def with_controllers(settings: Servers, controllers: Sequence[Node], broker: str) -> Servers:
    """Returns the settings of a cluster that has controllers from now on. `broker` is a broker that has started.

    Raises ClusterTrouble if the broker has not stored the cluster's id.
    """
    layout = replace(settings.layout, controllers=tuple(controllers))
    return replace(settings, layout=layout, cluster_id=_cluster_id(settings.data(broker)))


def _cluster_id(data: Path) -> str:
    try:
        lines = (data / "meta.properties").read_text().splitlines()
        return next(line.removeprefix(_ID) for line in lines if line.startswith(_ID))
    except (OSError, StopIteration):
        raise ClusterTrouble(f"{data / 'meta.properties'} does not contain the id of the cluster") from None


def in_mode(settings: Servers, mode: str) -> Servers:
    """Returns the settings of servers in a mode: see `migration_config`."""
    return replace(settings, mode=mode)


def mode_of(settings: Servers) -> str:
    return settings.mode or migration_config.ZOOKEEPER


def shell_argv(settings: Servers, keeper: Keeper, command: Sequence[str]) -> list[str]:
    """Returns the command line that executes a command of ZooKeeper's shell, such as `delete /controller`."""
    name, _ = broker_config.log_config(settings.version, "")
    arguments = ["-server", f"{keeper.address}:{keeper.port}", *command]
    log_config = str(settings.home(keeper.name) / name)
    return broker_config.java_argv(settings.java, settings.jars, log_config, SHELL, arguments)
