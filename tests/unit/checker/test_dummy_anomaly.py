"""A new anomaly is one object and one line in the table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from checker.anomalies import table
from checker.anomalies.model import Anomaly
from checker.check import check_plain
from checker.kernels.bucket import Bucket
from harness.model.options import CheckOptions
from tests.unit.checker.cases import cases


def _find(bucket: Bucket) -> pa.Table:
    rows = np.flatnonzero(bucket.values(bucket.sends.pair) == 3)
    return pa.table({"key": bucket.key_codes(bucket.sends.pair[rows]), "op": bucket.sends.op[rows]})


def test_dummy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.ANOMALIES, "three", Anomaly("three", "A three was sent.", "this test", _find))
    case = next(case for case in cases() if case.name == "lost-write/negative")
    result = check_plain(case.path, CheckOptions())
    assert result.valid == "invalid"
    assert [(found.name, found.witnesses) for found in result.anomalies] == [("three", ({"key": 1, "op": 5},))]
