"""The local cluster for an ordinary user: namespaces, brokers and packet filters without root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cluster.local.namespaced_cluster import LocalCluster
from harness.cluster.spec import ClusterSpec
from tests.conftest import absent

pytestmark = [pytest.mark.cluster, pytest.mark.rootless]


def test_an_ordinary_user_isolates_a_node(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        absent("this test is for an ordinary user, and this is root")
    cluster = LocalCluster(ClusterSpec(nodes=2, work_dir=tmp_path))
    try:
        cluster.up(print)
        argv = ["sh", "-c", "exec 3<>/dev/tcp/10.64.1.1/9092"]
        assert cluster.run("n2", ["bash", *argv[1:]], 10).code == 0
        cluster.drop("n1", ["n2"])
        assert cluster.run("n2", ["timeout", "1", "bash", *argv[1:]], 10).code == 124
        assert cluster.dropped("n1") > 0
        cluster.heal()
        assert cluster.run("n2", ["bash", *argv[1:]], 10).code == 0
    finally:
        cluster.down()
