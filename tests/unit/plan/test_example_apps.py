"""The descriptions in examples/apps are valid, and the jars of those that are built with Maven are pinned."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.plan import from_options

APPS = Path(__file__).parents[3] / "examples" / "apps"
DESCRIPTIONS = sorted(str(path.relative_to(APPS)) for path in APPS.glob("*/*.yaml"))


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_plan_can_be_made_of_each(description: str) -> None:
    plan, *_ = from_options.gather({"workload": "app"}, None, None, APPS / description)
    assert plan.app is not None
    assert "{bootstrap}" in plan.app.command


@pytest.mark.parametrize("project", sorted(path.parent.name for path in APPS.glob("*/pom.xml")))
def test_each_jar_has_its_checksum(project: str) -> None:
    lines = (APPS / project / "jars.sha256").read_text().splitlines()
    pinned = [re.fullmatch(r"[0-9a-f]{64}  build/jars/(.+)\.jar", line) for line in lines]
    assert all(pinned)
    names = {found[1] for found in pinned if found is not None}
    pom = ElementTree.parse(APPS / project / "pom.xml")
    dependencies = pom.findall("{*}dependencies/{*}dependency")
    wanted = {f"{each.findtext('{*}artifactId')}-{each.findtext('{*}version')}" for each in dependencies}
    assert wanted
    assert wanted <= names
