"""Plans that the cluster does not support are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.plan import make_plan
from harness.run import make_cluster


def test_power_cuts_are_refused_where_brokers_have_no_disks_of_their_own(tmp_path: Path) -> None:
    plan = make_plan.make({"workload": "log-model", "cluster": "mock", "weights": "power=3"})
    cluster = make_cluster.make(plan, tmp_path, print)
    with pytest.raises(BadInput, match="power needs a separate disk per broker"):
        make_cluster.refuse_load(plan, cluster)
