"""Where a store's bytes are: a folder, or an object store through `pyarrow.fs`.

Readers need no more than `read` and `exists`; only folders are written to, by `atomic_write`,
which leaves either the old file or the new one, whole and on disk, whatever happens in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs

from ..errors import StoreError, StoreLocked, StoreNotFound

CACHE_VARIABLE = "NOWCAST_ALFRED_CACHE"
TEMPORARY = ".tmp-"


class Files:
    """Reads files below one root.

    Parameters
    ----------
    uri
        A path, or a URI that `pyarrow.fs` knows (`s3://bucket/prefix`; credentials and endpoint
        from the environment, as for any AWS client).
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        self.uri = os.fspath(uri)
        self.shown = without_secrets(self.uri)
        if "://" in self.uri:
            try:
                self._fs, self._root = pafs.FileSystem.from_uri(self.uri)
            except (ValueError, OSError) as error:
                reason = str(error).replace(self.uri, self.shown)
                raise StoreNotFound(f"cannot open {self.shown}: {reason}") from None
        else:
            self._fs, self._root = pafs.LocalFileSystem(), str(Path(self.uri).absolute())

    def where(self, name: str) -> str:
        """The place of a file, for messages."""
        return f"{self.shown.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes:
        """The bytes of one file.

        Raises
        ------
        FileNotFoundError
            If it is not there.
        StoreNotFound
            If a file is where the store should be.
        StoreError
            If it cannot be read (network, rights).
        """
        path = f"{self._root.rstrip('/')}/{name}"
        try:
            with self._fs.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            raise
        except NotADirectoryError:
            raise StoreNotFound(f"{self.shown} is or lies in a file; a store is a folder") from None
        except OSError as error:
            raise StoreError(f"cannot read {self.where(name)}: {error}") from None

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder below the root; none if it is not there."""
        selector = pafs.FileSelector(f"{self._root.rstrip('/')}/{folder}", allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._fs.get_file_info(selector))
        except OSError as error:
            raise StoreError(f"cannot read {self.where(folder)}: {error}") from None


def without_secrets(uri: str) -> str:
    """A URI without the parts that may hold credentials (user and password, query), for messages.

    >>> without_secrets("s3://key:secret@bucket/prefix?region=eu-north-1")
    's3://bucket/prefix'
    """
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return uri
    return scheme + mark + re.sub(r"^[^@]*:[^@]*@", "", rest.split("?")[0])


def sha256(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def exclusive(root: Path, name: str, doing: str) -> Iterator[None]:
    """Hold a folder's lock of some name, which the system drops if the process dies.

    Raises
    ------
    StoreLocked
        If another process holds it.
    StoreError
        If the folder cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = (root / name).open("w")
    except (FileExistsError, NotADirectoryError):
        raise StoreError(
            f"cannot write to {root}: it is or lies in a file; name a folder"
        ) from None
    except OSError as error:
        raise StoreError(f"cannot write to {root}: {error}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(
                f"another process is {doing} {root}; wait for it to end (the lock goes with it)"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot lock {root}: {error}") from None
        yield


def cache_folder() -> Path:
    """The folder for caches: `NOWCAST_ALFRED_CACHE`, else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        folder = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "nowcast-alfred"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the cache folder {folder}: {error}; set {CACHE_VARIABLE} to a folder "
            "that can be written"
        ) from None
    return folder
