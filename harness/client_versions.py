"""Client libraries of other versions than this environment's: fetched into the cache, and used by workers.

confluent-kafka comes as a wheel from PyPI, with librdkafka in it, for the interpreter that runs; a worker
finds it first on its path. The Java client comes with the broker's jars of its version (`cluster.jars`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.cluster import cache, jars, java, namespaces, versions
from harness.model.errors import BadInput, Missing
from harness.plan import TestPlan

_TIMEOUT_S: Final = 300.0
_VERSION: Final = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")


def confluent(version: str, progress: Callable[[str], None]) -> Path:
    """The folder with confluent-kafka of a version. Raises BadInput for none such, Missing."""
    if not _VERSION.fullmatch(version):
        raise BadInput(f"--client-version {version}: give three numbers, such as 2.1.0")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    folder = cache.root() / "clients" / f"confluent-kafka-{version}-{tag}"
    if folder.is_dir():
        return folder
    with cache.locked(
        folder.with_name(f"{folder.name}.lock"), progress, f"fetching confluent-kafka {version}"
    ):
        if not folder.is_dir():
            progress(f"fetching confluent-kafka {version} from PyPI into {folder} (once)")
            with cache.building(folder) as building:
                _install(version, building)
    return folder


def _install(version: str, target: Path) -> None:
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--target", str(target), f"confluent-kafka=={version}"]  # fmt: skip
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"confluent-kafka {version} could not be fetched: {error}") from None
    if done.returncode == 0:
        return
    last = (done.stderr.strip() or f"pip ended with {done.returncode}").splitlines()[-1]
    if "No matching distribution" in done.stderr:
        raise BadInput(
            f"--client-version {version}: PyPI has no wheel of confluent-kafka {version} for Python "
            f"{sys.version_info.major}.{sys.version_info.minor} (2.0.0 and newer have them for 3.11)"
        )
    raise Missing(f"confluent-kafka {version} could not be fetched from PyPI ({last}); needed once")


def worker_env(plan: TestPlan, progress: Callable[[str], None]) -> dict[str, str]:
    """What the workers' environment needs for the version that a plan names."""
    if plan.library != "confluent" or not plan.client_version:
        return {}
    return {"PYTHONPATH": f"{confluent(plan.client_version, progress)}:{namespaces.python_path()}"}


def java_client(plan: TestPlan, progress: Callable[[str], None]) -> dict[str, str]:
    """The Java client's executable and class path. Raises BadInput, Missing."""
    found = java.find()
    fetched = jars.ensure(versions.resolve(plan.client_version or jars.DEFAULT_VERSION), found, progress)
    return {"path": found.path, "classpath": fetched.client_classpath}


def fetch(plan: TestPlan, progress: Callable[[str], None]) -> None:
    """Have what a plan's clients need, before anything is started. Raises BadInput, Missing."""
    if plan.library == "java":
        java_client(plan, progress)
    worker_env(plan, progress)
