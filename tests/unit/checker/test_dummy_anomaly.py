"""A new anomaly needs one file and one row of the catalogue; everything else follows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.guarantees import Guarantee, read_committed
from checker.anomalies.prose import Phrases, Witness
from checker.check import check_plain
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import table
from docs.generate import anomalies
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.report.text.summary import summary
from tests.unit.checker.cases import cases

# --- the content of checker/anomalies/three.py --------------------------------------------------------


def find(bucket: Bucket) -> pa.Table:
    """Sends of the value 3."""
    rows = np.flatnonzero(bucket.values(bucket.sends.pair) == 3)
    return table({"key": bucket.key_codes(bucket.sends.pair[rows]), "op": bucket.sends.op[rows]})


def prose(witness: Witness, phrases: Phrases) -> str:
    return f"{phrases.who(witness['op'])} sent a three to key {witness['key']}"


ANOMALY = Anomaly(
    name="three",
    summary="A three was sent.",
    source="this test",
    prose=prose,
    guarantee=Guarantee((read_committed,), "nobody sends a three", "this test"),
    find=find,
)


# --- its row ------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "three", ANOMALY)


HISTORY = next(case.path for case in cases() if case.name == "lost-write/negative")


def judged(settings: Settings) -> Result:
    return check_plain(HISTORY, CheckOptions(settings=settings))


def test_it_is_found() -> None:
    result = judged(Settings())
    assert result.valid == "invalid"
    assert [(found.name, found.witnesses) for found in result.anomalies] == [("three", ({"key": 1, "op": 5},))]


@pytest.mark.parametrize(
    ("settings", "promised"),
    [
        (Settings(isolation_level="read_committed"), True),
        (Settings(isolation_level="read_uncommitted"), False),
        (Settings(), None),
    ],
)
def test_settings_promise_otherwise(settings: Settings, promised: bool | None) -> None:
    result = judged(settings)
    assert (result.promised, result.anomalies[0].promised) == (promised, promised)


def test_it_is_described_in_prose() -> None:
    assert "op 5 sent a three to key 1" in summary(HISTORY, judged(Settings()))


def test_it_is_documented() -> None:
    section = anomalies.page().partition("## three\n")[2].partition("\n## ")[0]
    assert section.strip() == "\n".join(
        [
            "A three was sent.",
            "",
            "- Makes a run invalid: always.",
            "- Forbidden by: `isolation.level=read_committed`, or no transactions.",
            "- Reason: nobody sends a three (this test).",
            "- Rule: this test; `checker/anomalies/three.py`.",
        ]
    )
