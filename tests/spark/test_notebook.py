"""docs/use/notebook.ipynb, executed cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, recorded

pytestmark = pytest.mark.spark
NOTEBOOK = Path(__file__).parents[2] / "docs" / "use" / "notebook.ipynb"


def test_the_notebook_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path, "lossy", simulate(1, txn=False, bugs=frozenset({"lose-acked"})))
    result = judged(folder)
    monkeypatch.setenv("HARNESS_RUN", str(folder))
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    variables: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]  # what a machine said once is no documentation
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, {cell['id']}", "exec"), variables)
    (lost,) = [found.count for found in result.anomalies if found.name == "lost-write"]
    assert len(variables["unread"]) == lost > 0
    keys = variables["by_key"].toPandas()
    assert keys["count"].sum() == len(variables["sends"]) == variables["run"].spark(spark, "sends").count()
