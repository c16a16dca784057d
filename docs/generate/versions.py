"""The page reference/versions.md, from the tables of Kafka's versions and upgrades."""

from __future__ import annotations

from docs.generate.markdown import NOTE
from harness.cluster.distribution import upgrade_pairs
from harness.cluster.distribution import versions as kafka
from harness.cluster.distribution.java import MINIMUM as JAVA_MINIMUM


def _version(series: str, patch: str) -> str:
    default, *others = (f"`{metadata}`" for metadata in kafka.modes(patch))
    java = ", ".join(map(str, kafka.JAVA[series]))
    return f"| {series} | {patch} | {default} | {', '.join(others)} | {java} |"


def page() -> str:
    """The page reference/versions.md."""
    oldest = ".".join(map(str, kafka.OLDEST))
    lines = [
        "# Kafka versions",
        "",
        NOTE,
        "",
        "    harness run --kafka-version 2.4 --nemesis leader-kill --acks all",
        "    harness run --kafka-version 3.9 --metadata zookeeper",
        "    harness run --controllers 3 --nemesis kill:controller",
        "",
        f"The local cluster runs every release from {oldest} on. The jars are fetched from Maven Central once.",
        "",
        "`--kafka-version` takes a release such as `3.9.1`, or a series such as `3.9`, which stands for the patch",
        f"release in the table. Without the option, {kafka.DEFAULT} runs: the default is pinned to this release and is",
        "independent of the table.",
        "",
        "| series | patch | default metadata | alternative | tested on Java |",
        "| --- | --- | --- | --- | --- |",
        *(_version(*row) for row in kafka.SERIES.items()),
        "",
        "On Java 17, the main test was run: leaders were killed under load, and nothing was lost. On the other Java",
        "versions, a cluster was started, and a killed controller was replaced.",
        "",
        f"The harness needs Java {JAVA_MINIMUM} or newer, and runs the brokers on the same Java.",
        "",
        "## Upgrades",
        "",
        "    harness run --kafka-version 4.3 --upgrade-to 4.4 --nemesis upgrade,finalize",
        "",
        "These pairs are tested ([Upgrades](../use/upgrades.md)); every newer version is accepted in the same mode.",
        "",
        "| metadata | from | to |",
        "| --- | --- | --- |",
        *(f"| `{mode}` | {old} | {new} |" for mode, old, new in upgrade_pairs.neighbours()),
    ]
    return "\n".join(lines).rstrip() + "\n"
