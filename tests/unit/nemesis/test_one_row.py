"""A new fault is one file and one row: everything else follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol, cast, runtime_checkable

import pytest

from docs.generate import faults
from harness.cli import fault_support
from harness.model.capabilities import Cluster
from harness.model.check_options import Settings
from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis import table
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes, unseen
from nemesis.verb import Verb

NODES = ("n1", "n2", "n3")

# --- the file ------------------------------------------------------------------------------------------


@runtime_checkable
class Lights(Protocol):
    """Switches the light of a server's room off and on."""

    def switch(self, node: str, on: bool) -> None: ...


def _switch(on: bool, env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Lights)
    for node in nodes:
        env.cluster.switch(node, on)
    return {"took_effect": True}


def _fault(target: str, timing: Timing) -> Fault:
    name = f"darken:{target}"
    begin, end = fault_op("darken", name, target, "start"), fault_op("lighten", name, target, "stop")
    nemesis = BrokenNodes(target, "darken", "lighten", partial(_switch, False), partial(_switch, True), effect=unseen)
    settings = {"min_insync_replicas": 1}
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Lights,), settings=settings)


VERB = Verb("switch off the light of a server", _fault, short={"darkness": "all"})

# --- the row -------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "VERBS", {**table.VERBS, "darken": VERB})


# --- what follows --------------------------------------------------------------------------------------


def test_it_is_listed_with_its_needs_and_short_name() -> None:
    (listed,) = (row for row in fault_support.rows() if row.verb == "darken")
    assert listed.summary == VERB.summary and listed.needs == ("Lights",) and listed.aliases == ("darkness",)
    assert all(listed.refused.values()), "no cluster can do it"


def test_it_is_parsed_and_a_wrong_target_is_refused() -> None:
    assert table.canonical("darken:n2, darkness", NODES) == ("darken:n2", "darken:all")
    with pytest.raises(BadInput, match="darken has no target 'n9'"):
        table.canonical("darken:n9", NODES)
    with pytest.raises(BadInput, match="did you mean darken:all"):
        table.canonical("darkn:all", NODES)


def test_a_fault_is_made_of_it_and_is_healed_in_the_end() -> None:
    (fault,) = table.faults(("darken:leader",), Timing())
    assert fault.name == "darken:leader" and fault.nemesis.fs == {"darken", "lighten"}
    assert table.needed([fault]) == {Lights} and table.under_load([fault]) is not None


def test_a_cluster_without_its_capability_refuses_it() -> None:
    chosen = table.faults(("darken:leader",), Timing())
    plain = cast(Cluster, SimpleNamespace(nodes=NODES))
    with pytest.raises(BadInput, match="darken:leader needs Lights, which nobody offers"):
        table.refuse_unsupported(chosen, plain, "nobody offers", {})
    lit = cast(Cluster, SimpleNamespace(nodes=NODES, switch=print))
    table.refuse_unsupported(chosen, lit, "nobody offers", {})
    with pytest.raises(BadInput, match="needs Lights: no switch"):
        table.refuse_unsupported(chosen, lit, "nobody offers", {Lights: "no switch"})


def test_what_it_makes_of_the_settings_counts_for_the_verdict() -> None:
    before = Settings(min_insync_replicas=2)
    assert table.weakened(before, ("darken:leader",)).min_insync_replicas == 1
    assert table.weakened(before, ("kill:leader",)).min_insync_replicas == 2


def test_it_is_in_the_catalogue_of_faults() -> None:
    page = faults.page()
    row = next(line for line in page.splitlines() if line.startswith("| `darken` |"))
    assert "Switch off the light of a server" in row and "`darken`, `lighten`" in row and "Lights" in row
    assert "| `darkness` | `darken:all` |" in page
    assert "| `Lights` | Switches the light of a server's room off and on" in page
