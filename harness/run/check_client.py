"""Carries out the cases of `harness client check`, on a newly started broker or on an existing cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from harness.clients.confluent.adapter import Confluent
from harness.clients.exec import command, conformance
from harness.clients.exec.conformance import Outcome
from harness.clients.settings import Settings
from harness.model.capabilities import Wire
from harness.model.errors_and_exit_codes import BadInput
from harness.model.wire_rules import Rule
from harness.plan import make_plan
from harness.protocol.error_codes import ClientError
from harness.run import make_cluster

Say = Callable[[str], None]
ApplyRules = Callable[[Sequence[Rule]], None]
PARTITIONS: Final = 2


@contextmanager
def _brokers(bootstrap: str, kafka_version: str | None, say: Say) -> Iterator[tuple[str, ApplyRules | None]]:
    """Yields the address of brokers, and a function that sets the rules of their wire proxy.

    Starts a broker with a wire proxy, and stops it when the context ends. If `bootstrap` is given, starts nothing, and
    yields (`bootstrap`, None).
    """
    if bootstrap:
        yield bootstrap, None
        return
    options = {"nodes": 1, "network": "loopback", "replication": 1, "min_insync_replicas": 1, "proxy": "clients"}
    plan = make_plan.make({**options, **({"kafka_version": kafka_version} if kafka_version else {})})
    with tempfile.TemporaryDirectory(prefix="harness-client-check-") as folder:
        cluster = make_cluster.make(plan.model_copy(update={"run": "client-check"}), Path(folder), say)
        cluster.up(say)
        try:
            assert isinstance(cluster, Wire)
            yield cluster.bootstrap, lambda rules: cluster.apply_rules("check", rules, seed=1)
        finally:
            cluster.down()


def check(
    client: str,
    bootstrap: str,
    kafka_version: str | None,
    user: str,
    environment: Sequence[str],
    only: str,
    say: Say,
    known: Mapping[str, str],
) -> tuple[dict[str, Any], list[Outcome]]:
    """Runs the cases with a client program. Returns (its answer to `hello`, the outcome of each case).

    client     "exec:" and the program's command
    bootstrap  address of the brokers; empty: a broker is started
    only       run only the cases whose name contains this text
    known      name of a case that the program's library is known to fail -> why it fails

    Raises BadInput, Missing, ClusterTrouble.
    """
    argv = command.argv(client)
    with _brokers(bootstrap, kafka_version, say) as (address, apply_rules):
        admin = Confluent().admin(Settings(bootstrap=address, run="client-check"))
        made: list[str] = []

        def make_topic(name: str) -> None:
            admin.create_topics([name], PARTITIONS, 1, {})
            made.append(name)

        try:
            return conformance.check(argv, address, make_topic, apply_rules, user, environment, say, only, known)
        except ClientError as error:
            raise BadInput(f"{client}: {error}") from None
        finally:
            if bootstrap and made:
                admin.delete_topics(made)
            admin.close()
