"""Cycles as sentences: the steps of every kind, and what is said where little is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.anomalies import cycle_prose
from harness.model import op as ops_
from harness.model.op import Op
from harness.report.text import witness_text
from harness.report.text.phrases import OpPhrases
from harness.stored.operations_and_records import Record, of_run
from tests.unit.report.folders import S, judged, recorded, woven

WW = {"type": "ww", "key": 1, "value": 10, "value'": 11, "a-mop-index": 0, "b-mop-index": 0}
WR = {"type": "wr", "key": 2, "value": 20, "a-mop-index": 0, "b-mop-index": 1}
RW = {"type": "rw", "key": 1, "value": 10, "value'": 11}
PROCESS = {"type": "process", "process": 4}


def cycle(*steps: dict[str, Any], ops: list[int], name: str = "G1c") -> dict[str, Any]:
    return {"type": name, "cycle": [*ops, ops[0]], "steps": list(steps)}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two transactions: op 2 sends 10 and polls 20; op 3 sends 11 and 20."""

    def op(at_s: float, process: int, type_: str, f: str, value: Any) -> Op:
        return Op(-1, int(at_s * S), process, type_, f, value)

    ops = woven(
        [
            op(1, 0, ops_.INVOKE, "txn", [["send", 1, 10], ["poll"]]),
            op(1.1, 4, ops_.INVOKE, "txn", [["send", 1, 11], ["send", 2, 20]]),
            op(1.2, 0, ops_.OK, "txn", [["send", 1, [5, 10]], ["poll", [[2, [[7, 20]]]]]]),
            op(1.3, 4, ops_.OK, "txn", [["send", 1, [6, 11]], ["send", 2, [7, 20]]]),
            op(1.5, 4, ops_.INVOKE, "poll", [["poll"]]),
            op(1.6, 4, ops_.OK, "poll", [["poll", [[1, [[5, 10], [6, 11]]]]]]),
        ]
    )
    folder = recorded(tmp_path, "20260102T030405-cycle", ops)
    judged(folder)
    return folder


def test_the_chain_of_reasons_ends_in_the_contradiction(run: Path) -> None:
    tell = OpPhrases(of_run(run))
    assert cycle_prose.then(cycle(WW, WR, ops=[2, 3]), tell) == [
        "T1 < T2, because T1 sent 10 to key 1 at offset 5, and the next record there is 11 at offset 6, which T2 sent.",
        "However, T2 < T1, because T2 sent 20 to key 2 at offset 7, and T1 polled it: a contradiction!",
    ]


def test_every_kind_of_edge_has_its_reason(run: Path) -> None:
    tell = OpPhrases(of_run(run))
    realtime = {"type": "realtime", "a'": 2, "b": 4}
    rw, process, real = cycle_prose.then(cycle(RW, PROCESS, realtime, ops=[2, 5, 3], name="G-single"), tell)
    assert rw == (
        "T1 < T2, because T1 polled no further than 10 of key 1, so it had not seen 11 at offset 6, the next "
        "record there, which T2 sent."
    )
    assert process == "T2 < T3, because process 4 executed T2 before T3."
    (only,) = cycle_prose.then(cycle(realtime, ops=[2], name="G0-realtime"), OpPhrases(None))
    assert only == "T1 < T1, because T1 completed (index 2) before T1 was invoked (index 4): a contradiction!"
    (timed,) = cycle_prose.then({"cycle": [2, 5], "steps": [realtime]}, tell)
    assert "completed at 1.200000 s, 300.000 ms before T2 was invoked at 1.500000 s" in timed
    assert real.startswith("However, T3 < T1, because T3 completed at 1.300000 s")


def test_a_reader_of_nothing_and_an_unknown_kind_of_edge() -> None:
    tell = OpPhrases(None)
    nothing, unknown = cycle_prose.then(cycle({**RW, "value": None}, {"type": "new", "x": 1}, ops=[2, 3]), tell)
    assert "T1 polled nothing of key 1, so it had not seen 11" in nothing
    assert "because of type new, x 1" in unknown


def test_in_one_sentence_ops_have_their_indices_and_processes(run: Path) -> None:
    text = witness_text.witness_text("G1c", {**cycle(WW, WR, ops=[2, 3]), "forbidden": True}, of_run(run))
    assert text.startswith("Op 2 came before op 3, because op 2 sent 10 to key 1 at offset 5, and the next")
    assert "however, op 3 came before op 2, because op 3 sent 20" in text
    assert "The operations are process 0 (op 2, 1.200 s); process 4 (op 3, 1.300 s)" in text
    assert text.endswith(cycle_prose.FORBIDDEN)


def test_long_cycles_are_cut_and_the_contradiction_stays() -> None:
    count = 200
    sentences = cycle_prose.then(cycle(*[PROCESS] * count, ops=list(range(count))), OpPhrases(None))
    assert len(sentences) == cycle_prose.SHOWN_MAX + 2
    assert "175 more steps" in sentences[-2] and sentences[-1].startswith("However, T200 < T1")


def test_only_the_edges_that_are_told_are_looked_up() -> None:
    looked_up = []

    class Counting(OpPhrases):
        def sends(self, key: Any, value: Any) -> tuple[Record, ...]:
            looked_up.append(value)
            return ()

    witness = cycle(*[WW] * 200, ops=list(range(200)))
    cycle_prose.then(witness, Counting(None))
    text = cycle_prose.prose(witness, Counting(None))
    assert len(looked_up) == 2 * 2 * (cycle_prose.SHOWN_MAX + 1)
    assert "and so on, 175 more steps up to op 199; however, op 199 came before op 0" in text


def test_faults_are_looked_for_while_any_op_of_the_cycle_ran() -> None:
    of: list[int | None] = []

    class Noting(OpPhrases):
        def faults(self, *ids: int | None) -> str:
            of.extend(ids)
            return " (a fault)"

    text = cycle_prose.prose(cycle(PROCESS, PROCESS, PROCESS, ops=[2, 3, 4]), Noting(None))
    assert of == [2, 3, 4]
    assert text.endswith("op 4 (a fault).")
    assert "a contradiction" not in cycle_prose.prose(cycle(PROCESS, ops=[2]), Noting(None))


@pytest.mark.parametrize("model", ["read-committed", "strict-serializable", None])
def test_a_component_says_how_many_ops_and_which_level_is_broken(model: str | None) -> None:
    witness: dict[str, Any] = {"type": "PL-2-cycle-exists", "scc-size": 12_345, "scc": list(range(100))}
    if model:
        witness |= {"not": model, "subgraph": ["union", "ww", "wr"]}
    text = witness_text.witness_text("PL-2-cycle-exists", witness, None)
    assert text.startswith("12,345 operations all precede each other")
    assert "... (100 in all)" in text
    assert (f"so the history is not {model}" in text.lower()) == bool(model)
    assert ("through edges of the kinds ww, wr" in text) == bool(model)


def test_a_cycle_of_another_form_is_shown_as_its_fields() -> None:
    assert witness_text.witness_text("G1c", {"cycle": [1, 2], "steps": [{}, {}, {}]}, None).startswith("cycle 1, 2")
