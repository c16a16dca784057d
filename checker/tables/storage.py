"""Files in an object store or another remote file system, named by URI: s3, gs, abfs, hdfs and file.

Only this module opens URIs. It uses `pyarrow.fs`, because pyarrow is a dependency anyway, and contains clients of S3,
Google Cloud Storage, Azure and HDFS, written in C++. fsspec would need another package for each of these stores, and an
event loop in a thread. The code that reads tables opens only local paths. The content of a URI is copied to a local
folder first.

    s3://bucket/runs            credentials, region and endpoint: from the environment, as AWS's tools take them
    gs://bucket/runs            Google's application default credentials
    abfs://container@account.dfs.core.windows.net/runs      AZURE_STORAGE_KEY, or Azure's default credential chain
    hdfs://namenode:8020/runs   libhdfs, with HADOOP_HOME and CLASSPATH
    file:///mnt/runs            a mounted folder that is treated like a store

A file becomes visible when it is complete: an object store shows an object once its upload ends; elsewhere it is
written under a temporary name and renamed. Every error is a Missing or BadInput that names the URI and never contains
credentials.
"""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing

BLOCK: Final = 4 << 20
PARALLEL: Final = 8  # transfers at the same time
ATTEMPTS: Final = 6  # of a request to S3 that is answered with 503 or not at all
CONNECT_S: Final = 5.0
GCS_RETRY_S: Final = 60.0
PART: Final = ".part"
UPLOAD: Final = "upload.json"  # the manifest of a run in a store; see `harness.stored.uploaded_run`
# A `Path` turns `s3://bucket` into `s3:/bucket`, so one slash is enough.
_URI: Final = re.compile(r"(s3|gs|gcs|abfss?|hdfs|viewfs|file):/+(.*)", re.DOTALL)
_OBJECTS: Final = ("s3", "gs", "gcs", "abfs", "abfss")  # whose objects appear complete

Item = TypeVar("Item")
T = TypeVar("T")


def uri_of(place: str | Path) -> str | None:
    """Returns the URI that a text or a Path stands for, without a final slash; None if it is a local path.

    Raises BadInput for a URI that contains a password.
    """
    matched = _URI.fullmatch(str(place))
    if matched is None:
        return None
    scheme, rest = matched[1], matched[2].rstrip("/")
    if ":" in rest.partition("/")[0].rpartition("@")[0]:
        raise BadInput(f"{scheme}://...: a URI must not contain credentials; set them in the environment")
    absent_host = scheme == "file" or (scheme in ("hdfs", "viewfs") and str(place).startswith(f"{scheme}:///"))
    return f"{scheme}://{'/' if absent_host else ''}{rest}"


@dataclass(frozen=True)
class Store:
    """A folder at a URI. Names are relative to it, with slashes. All methods raise BadInput and Missing."""

    uri: str
    _fs: Any
    _root: str

    def below(self, name: str) -> Store:
        """Returns a folder in this folder."""
        return Store(f"{self.uri}/{name}", self._fs, f"{self._root}/{name}")

    def sizes(self, name: str = "") -> dict[str, int]:
        """Returns the sizes in bytes of all files below this folder (or a folder in it), by name."""
        return {
            PurePosixPath(found.path).relative_to(self._root).as_posix(): int(found.size)
            for found in self._listed(name, recursive=True)
            if found.is_file
        }

    def folders(self) -> list[str]:
        """Returns the names of the folders directly in this folder, sorted."""
        return sorted(found.base_name for found in self._listed("", recursive=False) if not found.is_file)

    def _listed(self, name: str, recursive: bool) -> list[Any]:
        from pyarrow import fs

        folder = f"{self._root}/{name}".rstrip("/")
        with _errors(self.uri):
            return list(self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive)))

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file; None if it does not exist."""
        try:
            with _errors(self.uri), self._fs.open_input_file(f"{self._root}/{name}") as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file. Readers see the old content or all of the new content."""
        with self._whole(name) as path, self._fs.open_output_stream(path) as stream:
            stream.write(content)

    def upload(self, file: Path, name: str, size: int) -> int:
        """Copies the first `size` bytes of a local file to the store. Returns the CRC-32 of the bytes."""
        crc, missing = 0, size
        with file.open("rb") as source, self._whole(name) as path:
            with self._fs.open_output_stream(path) as stream:
                while missing and (block := source.read(min(BLOCK, missing))):
                    stream.write(block)
                    crc, missing = zlib.crc32(block, crc), missing - len(block)
            if missing or self._fs.get_file_info(path).size != size:
                raise Missing(f"{self.uri}/{name}: the upload is incomplete; upload it again")
        return crc

    def download(self, name: str, file: Path) -> tuple[int, int]:
        """Copies a file of the store to a local file. Returns (size in bytes, CRC-32)."""
        size, crc = 0, 0
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}{PART}")
        try:
            with (
                _errors(self.uri),
                self._fs.open_input_file(f"{self._root}/{name}") as source,
                part.open("wb") as target,
            ):
                while block := source.read(BLOCK):
                    target.write(block)
                    size, crc = size + len(block), zlib.crc32(block, crc)
        except FileNotFoundError:
            raise Missing(f"{self.uri}/{name}: it was removed while it was read; try again") from None
        part.replace(file)
        return size, crc

    def remove(self, names: Sequence[str]) -> None:
        """Removes files."""

        def one(name: str) -> None:
            with _errors(self.uri):
                self._fs.delete_file(f"{self._root}/{name}")

        in_parallel(one, names)

    @contextmanager
    def _whole(self, name: str) -> Iterator[str]:
        """Yields the path to write to: a temporary one, if the store shows files while they are being written."""
        path = f"{self._root}/{name}"
        with _errors(self.uri):
            if self.uri.startswith(tuple(f"{scheme}:" for scheme in _OBJECTS)):
                yield path
                return
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)
            part = f"{path}.{uuid.uuid4().hex[:12]}{PART}"
            try:
                yield part
                self._fs.move(part, path)
            except BaseException:
                if self._fs.get_file_info(part).is_file:
                    self._fs.delete_file(part)
                raise


def in_parallel(task: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Runs a transfer for each item in a few threads. Returns the results in order; raises the first error."""
    if len(items) < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(PARALLEL, len(items))) as pool:
        return list(pool.map(task, items))


def open_store(uri: str) -> Store:
    """Returns the folder at a URI, which need not exist. Raises BadInput if its bucket does not exist, Missing."""
    scheme, _, rest = uri.partition("://")
    with _errors(uri):
        found, root = _s3(rest) if scheme == "s3" else _other(uri, scheme, rest)
        store = Store(uri, found, root.rstrip("/"))
        if scheme in _OBJECTS:
            _reach(found, uri, root.split("/")[0])
    return store


def _reach(filesystem: Any, uri: str, bucket: str) -> None:
    """Raises BadInput if there is no such bucket, and OSError if the store refuses the credentials."""
    from pyarrow import fs

    with suppress(OSError):
        if filesystem.get_file_info(bucket).type != fs.FileType.NotFound:
            return
    # The answer to HEAD has no body; the one to this request names the cause.
    try:
        filesystem.get_file_info(fs.FileSelector(bucket))
    except FileNotFoundError:
        raise BadInput(f"{uri}: there is no bucket or container {bucket!r}; create it, or check its name") from None


def _s3(path: str) -> tuple[Any, str]:
    from pyarrow import fs

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    elif not region:
        options["region"] = fs.resolve_s3_region(path.partition("/")[0])
    retry = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
    # With a delayed open, a small file is one request, not the three of an upload in parts.
    made = fs.S3FileSystem(connect_timeout=CONNECT_S, retry_strategy=retry, allow_delayed_open=True, **options)
    return made, path


def _other(uri: str, scheme: str, rest: str) -> tuple[Any, str]:
    from pyarrow import fs

    if scheme in ("gs", "gcs"):
        from datetime import timedelta

        return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=GCS_RETRY_S)), rest
    key = os.environ.get("AZURE_STORAGE_KEY")
    if scheme in ("abfs", "abfss") and key:
        host, _, path = rest.partition("/")
        container, _, account = host.partition("@")
        name = account.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT", "")
        return fs.AzureFileSystem(name, account_key=key), f"{container}/{path}"
    found, root = fs.FileSystem.from_uri(uri)
    return found, root


# --- errors ---------------------------------------------------------------------------------------------

# What the libraries' messages contain, and what to tell the user.
_CAUSES: Final[Mapping[str, str]] = {
    "NO_SUCH_BUCKET": "there is no such bucket; create it, or check its name",
    "NoSuchBucket": "there is no such bucket; create it, or check its name",
    "XAdminUserNotFound": "the store does not know the access key; set the right credentials in the environment",
    "INVALID_ACCESS_KEY_ID": "the store does not know the access key; set the right credentials in the environment",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong; set the right credentials in the environment",
    "ACCESS_DENIED": "the credentials give no access; use others, or have access granted",
    "EXPIRED_TOKEN": "the credentials have expired; get new ones",
    "HTTP status 403": "the credentials are wrong or give no access; set the right ones in the environment",
    "response code: 403": "the credentials are wrong or give no access; set the right ones in the environment",
    "HTTP status 503": "the store is overloaded (503) and did not recover; try again later",
    "SLOW_DOWN": "the store is overloaded (503) and did not recover; try again later",
    "SERVICE_UNAVAILABLE": "the store is overloaded (503) and did not recover; try again later",
    "libhdfs": "HDFS needs Hadoop's native library: set HADOOP_HOME, ARROW_LIBHDFS_DIR and CLASSPATH",
    "libjvm": "HDFS needs Java: set JAVA_HOME",
    "NETWORK_CONNECTION": "the store cannot be reached; check the network and the endpoint",
}


@contextmanager
def _errors(uri: str) -> Iterator[None]:
    """Turns the libraries' errors into Missing, with one line that names the URI. FileNotFoundError is passed on."""
    try:
        yield
    except (HarnessError, FileNotFoundError):
        raise
    except (OSError, ValueError, NotImplementedError) as error:
        text = " ".join(str(error).split())
        cause = next((advice for mark, advice in _CAUSES.items() if mark in text), None)
        raise Missing(f"{uri}: {cause or f'the store failed ({_without_secrets(text)[:300]})'}") from None


def _without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= 8 and re.search(r"SECRET|TOKEN|PASSWORD|_KEY", name):
            text = text.replace(value, "...")
    return text
