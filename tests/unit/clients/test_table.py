"""Libraries by name, the noop client, and bounded calls."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from harness.clients.call_timeout import bounded
from harness.clients.queue import open_client
from harness.clients.table import CLIENTS, admin_opener, library_of, opener
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import Op, invoke
from harness.protocol.error_codes import ClientError

JAVA = {"path": "java", "classpath": ""}  # started when first needed
CONFIG = {"bootstrap": "127.0.0.1:1", "run": "table", "process": 0, "java": JAVA}


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_opens_without_a_cluster(name: str) -> None:
    library = "exec:/bin/true" if name == "exec" else name
    client = opener(library)({**CONFIG, "library": library})
    assert client.invoke(invoke("crash", None, 0)).type == "info"
    client.close()


def test_every_library_has_an_admin_role() -> None:
    assert admin_opener("noop")(CONFIG).create_topics(["t"], partitions=1) == ["t"]
    assert admin_opener("sim")(CONFIG).brokers(timeout_s=1) == [[1, "sim"]]


def test_slots_take_turns_and_a_slots_processes_are_of_one_library() -> None:
    three = ("confluent", "java", "aiokafka")
    assert [library_of(slot, 5, three) for slot in range(5)] == [*three, "confluent", "java"]
    assert {library_of(4 + 5 * n, 5, three) for n in range(20)} == {"java"}


def test_an_unknown_library_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="confluent, exec, java, noop, sim"):
        open_client({**CONFIG, "library": "kafkajs"})


def test_confluent_is_loaded_only_where_it_is_used() -> None:
    code = (
        "import sys; from harness.clients.queue import open_client;"
        "open_client({'library': 'noop'}); sys.exit('confluent_kafka' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_noop_counts_offsets() -> None:
    client = opener("noop")({})
    ops = [Op(n, 0, 0, "invoke", "txn", [["send", 3, n], ["poll"]]) for n in range(2)]
    assert [client.invoke(op).value for op in ops] == [
        [["send", 3, [0, 0]], ["poll", []]],
        [["send", 3, [1, 1]], ["poll", []]],
    ]
    assert client.invoke(invoke("assign", [1])).type == "ok"


def test_bounded_returns_raises_and_gives_up() -> None:
    assert bounded(lambda: 7, 5.0, "seven") == 7
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 5.0, "division")
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(ClientError, match="waiting took longer") as raised:
        bounded(lambda: release.wait(30), 0.05, "waiting")
    release.set()
    assert raised.value.kind == "fatal" and time.monotonic() - began < 5
