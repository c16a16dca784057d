"""Downloads versions of client libraries that are not installed, for the workers. The cache keeps them.

confluent-kafka (which includes librdkafka) and aiokafka are wheels from PyPI for the running Python version. A worker
finds the downloaded version first on its path. The Java client is one of the jars of the Kafka broker that has the same
version.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Final

from harness.clients import table
from harness.clients.exec import command
from harness.cluster.distribution import download_cache, jars, java, versions
from harness.cluster.local import namespaces
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.plan import derived
from harness.plan.test_plan import TestPlan

_TIMEOUT_S: Final = 300.0
_VERSION: Final = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")


def wheel(library: str, version: str, progress: Callable[[str], None]) -> Path:
    """Returns the folder that contains a version of a library. Downloads the version if it is not in the cache.

    library  the library's name in the plan

    Raises BadInput, Missing.
    """
    package = table.row(library).package
    if not _VERSION.fullmatch(version):
        raise BadInput(f"--client-version {version}: give three numbers, such as 2.1.0")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    folder = download_cache.root() / "clients" / f"{package}-{version}-{tag}"
    if folder.is_dir():
        return folder
    with download_cache.locked(folder.with_name(f"{folder.name}.lock"), progress, f"fetching {package} {version}"):
        if not folder.is_dir():
            progress(f"fetching {package} {version} from PyPI into {folder} (once)")
            with download_cache.building(folder) as building:
                _install(package, version, building)
    return folder


def _install(package: str, version: str, target: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--target",
        str(target),
        f"{package}=={version}",
    ]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{package} {version} could not be downloaded: {error}") from None
    if done.returncode == 0:
        return
    last = (done.stderr.strip() or f"pip exited with {done.returncode}").splitlines()[-1]
    if "No matching distribution" in done.stderr:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        hint = " (2.0.0 and later have wheels for 3.11)" if package == "confluent-kafka" else ""
        raise BadInput(
            f"--client-version {version}: PyPI has no wheel of {package} {version} for Python {python}{hint}"
        )
    raise Missing(
        f"{package} {version} could not be downloaded from PyPI ({last}); a download is needed once, then it is cached"
    )


def worker_env(plan: TestPlan, progress: Callable[[str], None]) -> dict[str, str]:
    """Returns the environment variables that make workers use the library versions that the plan names.

    Raises BadInput, Missing.
    """
    named = {name: version for name, version in derived.client_versions(plan).items() if table.row(name).package}
    if not named or plan.cluster == "sim":
        return {}
    folders = [wheel(name, version, progress) for name, version in named.items()]
    return {"PYTHONPATH": ":".join([*map(str, folders), namespaces.python_path()])}


def used(plan: TestPlan) -> dict[str, str]:
    """Returns library -> version, for the client libraries that the plan names. The version is "" if it is unknown."""
    chosen = derived.client_versions(plan)
    return {name: chosen.get(name) or _default(name) for name in plan.client}


def _default(name: str) -> str:
    if name == "java":
        return jars.DEFAULT_VERSION
    try:
        return metadata.version(table.row(name).package) if table.row(name).package else ""
    except metadata.PackageNotFoundError:
        return ""


def java_client(plan: TestPlan, progress: Callable[[str], None]) -> dict[str, str]:
    """Returns {"path": the Java executable, "classpath": the jars of the Java client}. Raises BadInput, Missing."""
    found = java.find()
    fetched = jars.ensure(versions.resolve(used(plan)["java"]), found, progress)
    return {"path": found.path, "classpath": fetched.client_classpath}


def fetch(plan: TestPlan, progress: Callable[[str], None]) -> None:
    """Downloads everything that the plan's clients need, before anything is started. Raises BadInput, Missing."""
    libraries = derived.libraries(plan)
    if "java" in libraries:
        java_client(plan, progress)
    worker_env(plan, progress)
    for name in libraries:
        if name.startswith(command.PREFIX):
            command.argv(name)
        package = table.row(name).package
        installed = not package or importlib.util.find_spec(package.replace("-", "_")) is not None
        if not installed and name not in derived.client_versions(plan):
            raise Missing(
                f"--client {name}: the library {package} is not installed: pip install {package}, or "
                f"name a version, which is then downloaded: --client-version {name}=X.Y.Z"
            )
