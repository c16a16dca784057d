"""The versions of Kafka between which the servers of a local cluster are upgraded, one server at a time.

Each server is started with the `Servers` of its version: other jars, and a configuration for that version. Its data
stays. The servers of ZooKeeper keep the version with which the cluster started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.cluster.distribution import cds_archive, jars, upgrade_pairs, versions
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.local import servers
from harness.cluster.local.layout import Layout
from harness.cluster.local.servers import Servers
from harness.cluster.local.storage_format import Template
from harness.cluster.spec import ClusterSpec
from harness.protocol import update_features


@dataclass(frozen=True, slots=True)
class Release:
    """What servers need to run a version: its jars, formatted storage (None with ZooKeeper), and JVM flags."""

    version: str
    jars: Jars
    template: Template | None
    jvm_flags: tuple[str, ...]

    @property
    def levels(self) -> Mapping[str, int]:
        """Feature -> level, for the features that are enabled in a new cluster of this version."""
        made = self.template
        return {} if made is None or made.bootstrap is None else update_features.levels_in(made.bootstrap)


def named(spec: ClusterSpec) -> tuple[str, ...]:
    """Returns the versions of a cluster: the first one and, if there is to be an upgrade, the new one.

    Raises BadInput if Kafka does not document the upgrade.
    """
    old = versions.resolve(spec.kafka_version)
    versions.check(old, spec.metadata_kept)
    if not spec.upgrade_to:
        return (old,)
    new = versions.resolve(spec.upgrade_to)
    upgrade_pairs.check(old, new, spec.metadata_kept)
    return old, new


def fetch(
    wanted: Sequence[str], layout: Layout, java: Java, jvm_flags: Sequence[str] | None, progress: Progress
) -> dict[str, Release]:
    """Returns version -> what servers need to run it.

    jvm_flags  JVM flags of the brokers; None: flags that make them start faster

    Raises BadInput (no such version), Missing, ClusterTrouble.
    """
    found = {}
    for version in wanted:
        fetched = jars.ensure(version, java, progress)
        template = servers.kraft_template(layout, java, fetched, progress)
        flags = cds_archive.of_kafka(java, fetched, progress) if jvm_flags is None else jvm_flags
        found[version] = Release(version, fetched, template, tuple(flags))
    return found


def with_release(base: Servers, release: Release, pin: str) -> Servers:
    """Returns the settings of servers that run a release.

    pin  the value of inter.broker.protocol.version; empty: the version's default
    """
    overrides = {**base.overrides, **({upgrade_pairs.PROTOCOL: pin} if pin else {})}
    return replace(
        base,
        version=release.version,
        overrides=overrides,
        jars=release.jars,
        template=release.template,
        jvm_flags=release.jvm_flags,
    )


def rolled(layout: Layout) -> tuple[str, ...]:
    """Returns the names of the servers that run Kafka, in the order of an upgrade: dedicated controllers first."""
    return tuple(place.name for place in (*layout.controllers, *layout.brokers))
