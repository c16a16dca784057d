"""A kind of cluster is a file with `make(spec)` and a row of the table: nothing else knows it by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.cli import doctor, fault_support
from harness.cluster import table
from harness.cluster.machine_checks import Check
from harness.cluster.spec import ClusterSpec
from harness.cluster.table import CLUSTERS, ClusterKind
from harness.model.capabilities import CommandResult, Processes
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.test_plan import TestPlan
from harness.run import make_cluster
from nemesis import table as nemeses
from nemesis.schedule.timing import Timing


class PaperCluster:
    """What a file of its own would hold: a cluster that does nothing."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.nodes = tuple(f"p{number}" for number in range(1, spec.nodes + 1))
        self.bootstrap = "paper"

    def up(self, progress: Callable[[str], None]) -> None:
        progress("paper")

    def down(self) -> None: ...

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        return CommandResult(0, " ".join(argv), "")


def server_names(spec: ClusterSpec) -> list[str]:
    return list(PaperCluster(spec).nodes)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> TestPlan:
    row = ClusterKind(
        summary="brokers of paper",
        make=f"{__name__}:PaperCluster",
        classes={"paper": f"{__name__}:PaperCluster"},
        refusal="paper does not offer; use --cluster local",
        server_names=f"{__name__}:server_names",
    )
    monkeypatch.setitem(CLUSTERS, "paper", row)
    monkeypatch.setattr(table, "imported", lambda path: globals()[path.partition(":")[2]] if path else None)
    return TestPlan().model_copy(update={"cluster": "paper", "nodes": 2, "run": "r"})


def test_a_plan_is_made_with_it(plan: TestPlan, tmp_path: Path) -> None:
    cluster = make_cluster.make(plan, tmp_path, print, frozenset({Processes}))
    assert isinstance(cluster, PaperCluster) and cluster.nodes == ("p1", "p2")
    assert (cluster.spec.run, cluster.spec.work_dir, cluster.spec.needed) == ("r", tmp_path, {Processes})
    assert make_cluster.server_names(plan) == ["p1", "p2"]
    assert nemeses.canonical("kill:p2", make_cluster.server_names(plan)) == ("kill:p2",)


def test_a_refusal_describes_it(plan: TestPlan, tmp_path: Path) -> None:
    cluster = make_cluster.make(plan, tmp_path, print)
    faults = nemeses.faults(("kill:leader",), Timing())
    with pytest.raises(BadInput, match="kill:leader needs Processes, which paper does not offer; use --cluster local"):
        nemeses.refuse_unsupported(
            faults, cluster, make_cluster.cannot(plan), make_cluster.refusals(plan, frozenset({Processes}))
        )


def test_it_is_listed(plan: TestPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_support, "CLUSTERS", {"paper": CLUSTERS["paper"]})
    monkeypatch.setattr(fault_support, "imported", table.imported)
    monkeypatch.setattr(doctor, "CLUSTERS", {"paper": CLUSTERS["paper"]})
    rows = {row.verb: row for row in fault_support.rows()}
    assert rows["kill"].refused == {"paper": "it does not support Processes; only clients can be targeted"}
    machine = [Check("network faults", True, "fine"), Check("docker cluster", True, "fine")]
    assert [(found.name, found.ok, found.why) for found in doctor.clusters(machine)] == [
        ("paper", True, "brokers of paper")
    ]


@pytest.mark.parametrize("kind", CLUSTERS)
def test_what_a_row_names_is_there(kind: str) -> None:
    row = CLUSTERS[kind]
    for path in (row.make, row.server_names, row.reasons, *row.classes.values()):
        assert not path or callable(table.imported(path))
