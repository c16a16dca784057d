"""The witnesses of a pipeline's anomalies: the first few are for the report, and all are written to Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.guarantees import every
from checker.anomalies.pipeline_modes import of_pipeline
from checker.anomalies.pipeline_outputs import OF_WRITERS
from checker.pipeline.tables import Setting
from checker.tables import make_tables
from checker.verdict import results
from checker.version import VERSION
from harness.model.check_options import Settings
from harness.model.check_result import AnomalyFound, Result, Verdict

SHOWN: Final = 32


@dataclass(frozen=True, slots=True)
class Found:
    """An anomaly of one run: the number of occurrences, and the first few witnesses."""

    count: int = 0
    witnesses: tuple[Mapping[str, Any], ...] = field(default=())


def first_few(rows: Any) -> dict[str, dict[str, Found]]:
    """Returns run -> name of the anomaly -> `Found`: the number of its witnesses, and the first few of them.

    rows  the witnesses, with the columns run, name (of the anomaly), place (a sort key) and witness (JSON)
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    each = Window.partitionBy("run", "name")
    few = (
        rows.withColumn("rank", F.row_number().over(each.orderBy("place", "witness")))
        .withColumn("all", F.count("*").over(each))
        .where(F.col("rank") <= SHOWN)
        .orderBy("run", "name", "rank")
        .collect()
    )
    found: dict[str, dict[str, Found]] = {}
    for row in few:
        earlier = found.setdefault(row["run"], {}).get(row["name"], Found())
        witness = orjson.loads(row["witness"])
        found[row["run"]][row["name"]] = Found(row["all"], (*earlier.witnesses, witness))
    return found


def store(run: Path, rows: Any, found: Collection[str], names: Iterable[str]) -> None:
    """Writes all witnesses of one run to results/witnesses, one file per anomaly.

    Removes the files of an earlier check first.

    rows   see `first_few`
    found  the names of the anomalies that were found
    names  the names of all anomalies that this check looks for
    """
    from pyspark.sql import functions as F

    with make_tables.writing(run / "results"):
        for name in names:
            (run / "results" / "witnesses" / f"{name}.parquet").unlink(missing_ok=True)
    for name in found:
        form = rows.where(F.col("name") == name).select(F.lit(None).cast("bigint").alias("op"), "witness")
        form.write.mode("overwrite").parquet(f"file:{(run / 'results' / '.parts' / name).resolve()}")
    results.finish(run)


def result(
    setting: Setting,
    found: Mapping[str, Found],
    reasons: Iterable[str],
    statistics: Mapping[str, Any],
) -> Result:
    """Returns the verdict on one run. For an application, only the anomalies count that it promises to avoid.

    `promised` in the result only says whether the pipeline's mode rules the anomalies out; `still_promised` also takes
    the settings and faults of the brokers into account.
    """
    anomalies = [
        AnomalyFound(
            name,
            anomaly.summary,
            found[name].count,
            anomaly.modes.bad(setting.mode) if setting.outputs is None else setting.mode in anomaly.modes.promising,
            anomaly.modes.promise(setting.mode, setting.transform),
            found[name].witnesses,
        )
        for name, anomaly in CATALOGUE.items()
        if name in found and anomaly.modes is not None
    ]
    anomalies.sort(key=lambda one: not one.bad)
    why = tuple(dict.fromkeys(reasons))
    verdict: Verdict = "invalid" if any(one.bad for one in anomalies) else "unknown" if why else "valid"
    return Result(verdict, promise(anomalies), why, tuple(anomalies), statistics, VERSION)


def still_promised(one: AnomalyFound, settings: Settings) -> bool | None:
    """Returns whether the pipeline's mode and the brokers' settings rule an anomaly out; None if that is unknown."""
    guarantee = CATALOGUE[one.name].guarantee
    if guarantee is None:
        return one.promised
    whose = settings if one.name in OF_WRITERS else of_pipeline(settings)
    return every(one.promised, guarantee.holds(whose))


def promise(anomalies: Iterable[AnomalyFound]) -> bool | None:
    """Returns whether at least one of the bad anomalies is ruled out by the mode and the settings (`promised`).

    Returns None if that is unknown, or if there are no bad anomalies.
    """
    promises = {one.promised for one in anomalies if one.bad}
    return True if True in promises else None if None in promises or not promises else False
