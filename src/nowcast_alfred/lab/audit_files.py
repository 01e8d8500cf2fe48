"""Is there data in what an agent's box may receive? The installed package, wheels and sdists.

verifiers copies the whole installed package, or the sdist of the source project, into a box when a
tool server is colocated. So every file of them is opened, archives within archives too: data
formats are known by their first bytes as well as by name, and text by holding consecutive values
of a series of the store: its levels, or the first releases that tasks ask for, in the transform of
the series and as printed in full or to the decimals of its levels.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from .. import baselines
from ..errors import InputError
from ..periods import Days, Floats, Units, iso
from ..served import number
from ..store import VintageStore
from .audit_case import Finding
from .audit_numbers import ungrouped

ROUTE = "an answer file in the box"
PACKAGE = "nowcast-alfred"
FORMATS = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"FEA1": "Feather",
    b"SQLite format 3": "SQLite",
    b"\x89HDF": "HDF5",
    b"\x93NUMPY": "NumPy",
    b"\xd0\xcf\x11\xe0": "XLS",
    b"ORC": "ORC",
    b"Obj\x01": "Avro",
}
NAMES = re.compile(
    r"\.(parquet|arrow|feather|ipc|csv|tsv|xlsx?|ods|sqlite3?|db|duckdb|h5|npy|npz|pkl|pickle)"
    r"(\.(gz|bz2|xz|zst))?$",
    re.IGNORECASE,
)
PACKED = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
ZIP = b"PK\x03\x04"
WORKBOOK = "xl/workbook.xml"
ZSTD = b"\x28\xb5\x2f\xfd"
DEPTH = 4
"""Archives within archives are opened so often."""
RUNS = ((5, 4, 15), (12, 6, 20))
"""What counts as values of a series: so many in a row, so many of them different, so many digits
in all. Short numbers, such as rates, need the longer run."""

Run = tuple[str, ...]
DATES = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{4}:?[QM]\d{1,2}\b")
NUMBERS = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def check(
    store: VintageStore, dists: list[Path], transforms: Mapping[str, Units] | None = None
) -> Finding:
    """Search the installed package and some built distributions.

    Parameters
    ----------
    store
        The store whose values are looked for.
    dists
        Wheels and sdists.
    transforms
        In which transform each target is asked for; None, and where a series is not named: as the
        store's metadata say.

    Raises
    ------
    InputError
        If a file named is not there, or is no archive.
    """
    runs = runs_of(store, transforms or {})
    found: list[str] = []
    searched = 0
    for name, content in [*installed(), *named(dists)]:
        for inner, data in opened(name, content):
            searched += 1
            if what := data_in(inner, data, runs):
                found.append(f"{inner}: {what}")
    evidence = {"searched": [f"{PACKAGE} as installed", *(path.name for path in dists)]}
    return Finding(
        ROUTE,
        "open" if found else "closed",
        "the installed package and the distributions named, for data files and values of the store",
        {**evidence, "files": searched, **({"found": found[:20]} if found else {})},
        "build again without the files found; the store stays on the worker's host"
        if found
        else "",
    )


def installed() -> Iterator[tuple[str, bytes]]:
    """The files that the installed distribution lists, and those in the package's folder."""
    folder = Path(__file__).resolve().parent.parent
    paths = {path for path in folder.rglob("*") if path.is_file()}
    try:
        listed = distribution(PACKAGE).files or []
        paths |= {Path(str(file.locate())).resolve() for file in listed}
    except PackageNotFoundError:  # run from a source tree
        pass
    for path in sorted(paths):
        if path.is_file() and path.suffix != ".pyc":
            name = path.relative_to(folder.parent) if folder.parent in path.parents else path
            yield str(name), path.read_bytes()


def named(dists: list[Path]) -> Iterator[tuple[str, bytes]]:
    """The distributions given."""
    for path in dists:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; name wheels or sdists") from None
        # Anything else would be searched in vain, and called closed.
        if not (content.startswith((ZIP, *PACKED)) or is_tar(content)):
            raise InputError(f"{path}: is no wheel or sdist")
        yield path.name, content


def opened(name: str, content: bytes, depth: int = DEPTH) -> Iterator[tuple[str, bytes]]:
    """A file, or the files in it if it is an archive."""
    try:
        inside = list(members(content)) if depth else []
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError):
        inside = []
    if not inside or WORKBOOK in dict(inside):
        yield name, content
        return
    for inner, data in inside:
        yield from opened(f"{name}/{inner}" if inner else name, data, depth - 1)


def is_tar(content: bytes) -> bool:
    """Whether bytes are a tar archive, by its mark."""
    return content[257:262] == b"ustar"


def members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of an archive; none of a file that is no archive."""
    for head, unpack in PACKED.items():
        if content.startswith(head):
            yield "", unpack(content)
    if content.startswith(ZIP):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from ((item, archive.read(item)) for item in archive.namelist())
    elif is_tar(content):
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    yield member.name, file.read()


def data_in(name: str, content: bytes, runs: dict[Run, str]) -> str:
    """What data a file holds; empty if none."""
    for head, what in FORMATS.items():
        if content.startswith(head):
            return what
    if content.startswith(ZIP) and WORKBOOK.encode() in content:
        return "XLSX"
    if content.startswith((ZIP, *PACKED, ZSTD)):
        return "an archive that cannot be opened"
    if NAMES.search(name):
        return "a data file by its name"
    if b"\0" in content:
        return ""
    return values_in(content.decode(errors="replace"), runs)


def runs_of(store: VintageStore, transforms: Mapping[str, Units]) -> dict[Run, str]:
    """Consecutive values of every series as printed, with the series' id: levels, first and
    latest, and first releases in the series' transform."""
    runs: dict[Run, str] = {}
    for key in store.series_ids:
        changes = store.changes(key)
        latest = changes.known(int(changes.columns.vintage.max()))[1]
        first = outcomes(store, key, transforms.get(key) or store.meta(key).transform)
        rounded = np.round(first, decimals_of(latest))
        for value in (changes.columns.value[changes.starts], latest, first, rounded):
            printed = [number(x) for x in value[np.isfinite(value)].tolist()]
            runs |= dict.fromkeys(telling(printed), key)
    return runs


def outcomes(store: VintageStore, key: str, units: Units) -> Floats:
    """The first releases of a series in a transform, in order of period: each computed inside the
    vintage that brought it, as scoring does."""
    changes = store.changes(key)
    release: Days = changes.columns.vintage[changes.starts]
    value = np.full(len(release), np.nan)
    for day in np.unique(release).tolist():
        known = store.view(iso(day)).observations(key, units=units)
        at = np.searchsorted(changes.periods, known.period)
        new = release[at] == day
        value[at[new]] = known.value[new]
    return value[release > changes.first_vintage]


def decimals_of(level: Floats) -> int:
    """How many decimals the levels are printed with."""
    unit = baselines.rounding_unit(level)
    return max(0, -round(math.log10(unit))) if unit else 8


def telling(printed: list[str]) -> Iterator[Run]:
    """The runs in a column of numbers that could not well be there by chance."""
    digits = [len(text.lstrip("-0.").replace(".", "")) for text in printed]
    for length, different, least in RUNS:
        for at in range(len(printed) - length + 1):
            run = tuple(printed[at : at + length])
            if len(set(run)) >= different and sum(digits[at : at + length]) >= least:
                yield run


def values_in(text: str, runs: dict[Run, str]) -> str:
    """Whose values a text holds, read through and by columns of its lines; empty if nobody's.

    A text with digits in groups is read a second time without the commas between them.
    """
    plain = DATES.sub(" ", text)
    joined = ungrouped(plain)
    for reading in [plain] if joined == plain else [plain, joined]:
        lines = [[number(float(x)) for x in NUMBERS.findall(line)] for line in reading.splitlines()]
        widest = min(max(map(len, lines), default=0), 64)
        columns = [[line[i] for line in lines if len(line) > i] for i in range(widest)]
        for column in ([x for line in lines for x in line], *columns):
            for run in telling(column):
                if run in runs:
                    return f"values of {runs[run]} ({', '.join(run)})"
    return ""
