"""A new workload, or a new client library, is one file and one row, as CONTRIBUTING.md says.

This module is the file of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from harness.clients import table as clients
from harness.clients.noop import NoopAdmin, NoopClient
from harness.generator import Fn, Limit, op
from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import Workload
from harness.model.op import INVOKE, OK, Op
from harness.plan.from_options import plan_values
from harness.plan.make_plan import make
from harness.plan.resolve import judged_by, resolve
from harness.run import client_versions, load_heal_final_polls, start_workers
from tests.unit.harness.simulated_time import simulate
from workloads import table as workloads

SENDS: Final = 7


# --- the file of the workload -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """Fields of the plan, by their names."""

    key_count: int


def workload(options: Options) -> Workload:
    sends = Fn(lambda ctx, n: op("send", [["send", n % options.key_count, n]]))
    return Workload("round-robin", Limit(sends, SENDS), None, client="queue")


# --- the file of the client library -------------------------------------------------------------------


def open_client(config: Mapping[str, Any]) -> NoopClient:
    assert config["acks"] == "1"
    return NoopClient()


def open_admin(config: Mapping[str, Any]) -> NoopAdmin:
    return NoopAdmin()


# --- the rows -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workloads.WORKLOADS, "round-robin", workloads.Row(workload, Options))
    library = clients.Library(queue=f"{__name__}:open_client", admin=f"{__name__}:open_admin", package="pytest")
    monkeypatch.setitem(clients.CLIENTS, "carrier-pigeon", library)


def test_the_plan_takes_both_and_names_them_among_the_others() -> None:
    values = plan_values({"workload": "round-robin", "client": "carrier-pigeon,java", "key_count": 3}, {})
    plan = make(values)
    assert (plan.workload, plan.client) == ("round-robin", ("carrier-pigeon", "java"))
    with pytest.raises(BadInput, match=r"--workload knapsack: input should be 'queue', .* or 'round-robin'"):
        make({"workload": "knapsack"})
    expected = "'confluent', 'java', 'aiokafka', 'exec:COMMAND', 'noop' or 'carrier-pigeon'"
    with pytest.raises(BadInput, match=f"--client no-such-client: input should be {expected}"):
        make({"client": "no-such-client"})
    with pytest.raises(BadInput, match="--workload pipeline supports confluent or java or exec:COMMAND"):
        make({"workload": "pipeline", "client": "carrier-pigeon"})


def test_the_workload_runs_with_its_options_from_the_plan() -> None:
    plan = make({"workload": "round-robin", "key_count": 3, "seed": 1})
    resolved = resolve(plan, ["n1"])
    assert resolved.workload.name == "round-robin"
    assert judged_by(plan).checks == ("queue", "metadata")
    invoked = [
        event.value[0] for event in simulate(load_heal_final_polls.load_phase(resolved), seed=1) if event.type == INVOKE
    ]
    assert invoked == [["send", n % 3, n] for n in range(SENDS)]


def test_the_client_is_opened_with_the_settings_of_the_plan() -> None:
    plan = make({"client": "carrier-pigeon", "acks": "1", "seed": 1, "run": "r"})
    config = start_workers.client_config(plan, "127.0.0.1:1")
    assert config["libraries"] == ["carrier-pigeon"]
    (library,) = set(start_workers.libraries_of_slots(plan))
    done = clients.opener(library)(config).invoke(Op(0, 0, 0, INVOKE, "send", [["send", 0, 5]]))
    assert (done.type, done.value) == (OK, [["send", 0, [0, 5]]])
    assert clients.admin_opener(library)(config).create_topics(["t"]) == ["t"]


def test_the_version_of_its_package_is_known() -> None:
    plan = make({"client": "carrier-pigeon"})
    assert client_versions.used(plan) == {"carrier-pigeon": pytest.__version__}
