"""Reading and judging what a host answers; packet filters as rules; what killed runs have left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cluster.ssh import cleanup, logs, preflight
from harness.cluster.ssh import packet_filters as filters
from harness.cluster.ssh.hosts import Host
from harness.cluster.ssh.preflight import Look, Ready
from harness.model.errors_and_exit_codes import ClusterTrouble

HOST = Host(address="10.0.0.1", name="n1", user="kafka")
ANSWER = """
== system
Linux x86_64
== folder
/home/kafka/.kafka-log-harness
writable
== space
/dev/sda1 100000000 5 8388608 42% /
== memory
MemAvailable:    4194304 kB
== tools
== java /usr/bin/java
    java.home = /usr/lib/jvm/java-17
    java.specification.version = 17
    java.version = 17.0.15
== root
yes
== filter nft
yes
== sockets
  sl  local_address rem_address   st
   0: 00000000:0016 00000000:0000 0A 00000000
   1: 0100007F:2384 00000000:0000 0A 00000000
   2: 0100007F:2385 0100007F:0016 01 00000000
== addresses
        |-- 10.0.0.0
           /24 link UNICAST
           |-- 10.0.0.1
              /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
== connection
10.0.0.9 40000 10.0.0.1 22
"""
LOOK = preflight.read(ANSWER)


def test_an_answer_is_read() -> None:
    assert (
        Look(
            system="Linux x86_64",
            folder="/home/kafka/.kafka-log-harness",
            writable=True,
            space_mb=8192,
            memory_mb=4096,
            lacking=(),
            java=("/usr/bin/java", ""),
            filters=("nft", ""),
            listening=frozenset({22, 9092}),
            addresses=frozenset({"10.0.0.1"}),
            seen_as="10.0.0.9",
        )
        == LOOK
    )


def test_an_answer_that_is_none_will_not_do() -> None:
    assert "runs an unknown system" in preflight.problems(HOST, preflight.read("welcome!\n"), "10.0.0.1", False)[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"system": "Darwin arm64"}, "runs Darwin"),
        ({"lacking": ("setsid", "tar")}, "lacks setsid, tar"),
        ({"writable": False}, "is not writable"),
        ({"space_mb": 10}, "10 MB are free"),
        ({"memory_mb": 10}, "10 MB of memory"),
        ({"java": ("", "no Java"), "system": "Linux riscv64"}, "install Java 17"),
        ({"listening": frozenset({9093})}, "port 9093 is in use already"),
        ({"addresses": frozenset({"10.0.0.2"})}, "which has 10.0.0.2"),
        ({"filters": ("", "it has neither")}, "packets cannot be dropped (it has neither)"),
    ],
)
def test_what_will_not_do_is_told_with_what_to_do(change: dict[str, Any], says: str) -> None:
    fine = replace(LOOK, listening=frozenset({22}))
    assert preflight.problems(HOST, fine, "10.0.0.1", True) == []
    (problem,) = preflight.problems(HOST, replace(fine, **change), "10.0.0.1", True)
    assert problem.startswith("n1 (kafka@10.0.0.1:22)") and says in problem


def test_filters_matter_only_where_faults_need_them() -> None:
    without = replace(LOOK, listening=frozenset(), filters=("", "none"))
    assert preflight.problems(HOST, without, "10.0.0.1", False) == []


def test_a_java_that_is_too_old_is_told() -> None:
    old = ANSWER.replace("version = 17\n", "version = 11\n").replace("17.0.15", "11.0.2")
    assert preflight.read(old).java == ("", "its Java /usr/bin/java cannot be used (version 11.0.2 is too old)")


@pytest.mark.parametrize(
    ("root", "tools", "says"),
    [
        ("", "", "the user is not root"),
        ("sudo: a password is required\n", "== filter nft\nno\n", "sudo: a password is required"),
        ("yes\n", "== filter nft\nOperation not supported\nno\n", "nft: Operation not supported"),
        ("yes\n", "", "it has neither nft nor iptables"),
    ],
)
def test_why_there_are_no_filters(root: str, tools: str, says: str) -> None:
    text = ANSWER.replace("== root\nyes\n== filter nft\nyes\n", f"== root\n{root}{tools}")
    tool, why = preflight.read(text).filters
    assert tool == "" and why.startswith(says)


def ready(name: str, address: str, more: tuple[str, ...] = ()) -> Ready:
    look = replace(LOOK, addresses=frozenset({address, *more}))
    return Ready(Host(address=address, name=name), cast(Any, None), look, address, address)


HOSTS = {
    "n1": ready("n1", "10.0.0.1", ("172.17.0.1",)),
    "n2": ready("n2", "10.0.0.2", ("172.17.0.1", "10.1.0.2")),
}


@pytest.mark.parametrize(
    ("at", "sources", "rules"),
    [
        ("n1", ["n2"], {"n1": [("in", "10.0.0.2"), ("in", "10.1.0.2")]}),
        ("n1", ["w0", "w1"], {"n1": [("in", "10.0.0.9"), ("in", "10.0.0.9")]}),
        ("w0", ["n1", "n2"], {"n1": [("out", "10.0.0.9")], "n2": [("out", "10.0.0.9")]}),
        ("w0", ["w1"], {}),
    ],
)
def test_who_does_not_hear_whom_as_rules(at: str, sources: list[str], rules: dict[str, list[tuple[str, str]]]) -> None:
    assert filters.wanted(HOSTS, at, sources) == rules


def test_dropped_packets_are_counted() -> None:
    nft = "tcp dport 9092-9094 counter packets 7 bytes 420 drop\ncounter packets 2 bytes 1 drop\n"
    iptables = (
        "Chain x_in (1 references)\n    pkts      bytes target\n"
        "       5      300 DROP       6    --  *      *       10.0.0.2             0.0.0.0/0\n"
    )
    assert (filters.counted(nft), filters.counted(iptables), filters.counted("")) == (9, 5, 0)


def test_what_runs_have_left_is_read() -> None:
    runs, filters = cleanup.read(
        "/root/.kafka-log-harness\n"
        "run yes no 12 nft harness_ssh_ab 2026-01-01T00:00:00Z /root/.kafka-log-harness/r one-ab-n1\n"
        "table nft harness_ssh_ab\ntable iptables harness_ssh_cd\n"
    )
    assert [(run.folder, run.guarded, run.running, run.lease, run.filter) for run in runs] == [
        ("/root/.kafka-log-harness/r one-ab-n1", True, False, "12", "nft harness_ssh_ab")
    ]
    assert filters == ["nft harness_ssh_ab", "iptables harness_ssh_cd"]
    with pytest.raises(ClusterTrouble, match="cannot be parsed: Welcome"):
        cleanup.read("/root\nWelcome to this host\n")


def test_names_in_a_stream_of_files_lead_nowhere_else(tmp_path: Path) -> None:
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("server.log", "../outside", "/etc/outside", "a/b"):
            info = tarfile.TarInfo(name)
            info.size = 2
            tar.addfile(info, io.BytesIO(b"hi"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    logs.unpack(packed, tmp_path / "in")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "server.log"]
