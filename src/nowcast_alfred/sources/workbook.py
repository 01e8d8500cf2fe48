"""XLSX workbooks as rows of text, read with the standard library.

Vintage matrices are large (30 MB of XML a sheet), plain (numbers and shared strings) and sometimes
slightly broken: `docProps/core.xml` may hold a time for which openpyxl refuses the whole workbook.
A workbook is a zip of XML, four parts of which are needed here, so these are read and no others:
little more code than the work-around, no further dependency, a quarter less time than openpyxl on
the largest workbook, and every cell with the place and the text that an error names.

A downloaded file is not trusted. Sizes are bounded before anything is unpacked, a document type
definition (the way to entities, internal or external) is refused, and what is no zip is never
looked into: a web page that was saved under a workbook's name says so in the error.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self
from xml.etree import ElementTree
from xml.parsers import expat

from ..errors import InputError

MAX_PART = 256 * 2**20
"""Largest part that is unpacked, in bytes; the largest real one has 31 MB."""
MAX_COLUMNS, MAX_ROWS = 16_384, 1_048_576
"""The limits of the format."""

_REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+")
_DAMAGE = (
    ElementTree.ParseError,
    expat.ExpatError,
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,  # an encoding that expat does not know
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # an encrypted part
)


def what_it_is(head: bytes) -> str:
    """What a file that is no workbook seems to be, from its first bytes; empty if it is one."""
    if head.startswith(b"PK"):
        return ""
    if not head:
        return "is empty"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return "is a web page under a workbook's name; download the file itself"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return "is in Excel's legacy format; save it as .xlsx"
    return "is no XLSX workbook"


class Workbook:
    """A workbook open for reading; a context manager.

    Attributes
    ----------
    sheets
        Names of the worksheets, in order.
    dates_from_1904
        Whether serial dates count from 1904 instead of 1900.

    Raises
    ------
    InputError
        If the file is no workbook, or damaged; here and while rows are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                head = file.read(512)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        if fault := what_it_is(head):
            raise InputError(f"{path}: {fault}")
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise InputError(f"{path}: is a damaged workbook: {error}") from error
        self._strings: list[str] | None = None
        try:
            self._open()
        except BaseException:
            self._zip.close()
            raise

    def _open(self) -> None:
        worksheets: dict[str, str] = {}
        for element in self._elements("xl/_rels/workbook.xml.rels"):
            if element.get("Type", "").endswith("/worksheet"):
                target = PurePosixPath("/xl", element.get("Target", ""))
                worksheets[element.get("Id", "")] = str(target)[1:]
        self.dates_from_1904 = False
        self._parts: dict[str, str] = {}
        for element in self._elements("xl/workbook.xml"):
            tag = _local(element.tag)
            if tag == "workbookPr":
                self.dates_from_1904 = element.get("date1904") in ("1", "true")
            elif tag == "sheet":
                for key, id in element.items():
                    if _local(key) == "id" and id in worksheets:
                        self._parts[element.get("name", "")] = worksheets[id]
        self.sheets = list(self._parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    def rows(self, sheet: str) -> Iterator[tuple[int, list[str]]]:
        """Number and cells of each row that is there, as text without blanks around it.

        An empty cell is an empty text; cells after the last one written are left out. Numbers come
        as they are written, errors as their name (`#N/A`), formulas as the value last computed.
        """
        if self._strings is None:
            self._strings = self._shared()
        columns: dict[str, int] = {}
        number = 0
        for element in self._elements(self._parts[sheet], "row"):
            text = element.get("r", str(number + 1))
            if not text.isdecimal() or not number < int(text) <= MAX_ROWS:
                raise InputError(f"{self.path}, sheet {sheet}: row {text[:20]!r} after {number}")
            number = int(text)
            try:
                yield number, _cells(element, self._strings, columns)
            except (ValueError, IndexError) as error:
                place = f"{self.path}, sheet {sheet}, row {number}"
                raise InputError(f"{place}: is damaged: {error}") from error
            element.clear()

    def _shared(self) -> list[str]:
        """The shared strings; the runs of a rich text are joined, its reading aids left out."""
        strings = []
        if "xl/sharedStrings.xml" in self._zip.namelist():
            for element in self._elements("xl/sharedStrings.xml", "si"):
                strings.append(_text(element))
                element.clear()
        return strings

    def _elements(self, part: str, tag: str = "") -> Iterator[ElementTree.Element]:
        """The elements of a part with a certain tag (or all), each when it ends."""
        try:
            info = self._zip.getinfo(part)
        except KeyError:
            raise InputError(f"{self.path}: is a damaged workbook: it has no {part}") from None
        if info.file_size > MAX_PART:
            raise InputError(f"{self.path}: {part} would unpack to {info.file_size:,} bytes")
        try:
            with self._zip.open(info) as stream:
                refused = _has_doctype(stream.read(2**16))
            if not refused:
                with self._zip.open(info) as stream:
                    for _, element in ElementTree.iterparse(stream):
                        if element.tag.endswith(tag) and tag in ("", _local(element.tag)):
                            yield element
        except _DAMAGE as error:
            raise InputError(f"{self.path}: {part} is damaged: {error}") from error
        if refused:
            raise InputError(f"{self.path}: {part} has a document type definition; refused")


def _has_doctype(head: bytes) -> bool:
    """Whether a document type definition, or nothing at all, comes before the first element."""
    seen: list[bool] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: seen.append(True)
    parser.StartElementHandler = lambda *_: seen.append(False)
    parser.Parse(head, False)
    return not seen or seen[0]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _text(element: ElementTree.Element) -> str:
    """The text of a shared or inline string."""
    runs = []
    for child in element:
        tag = _local(child.tag)
        if tag == "t":
            runs.append(child.text or "")
        elif tag == "r":
            runs.append(_text(child))
    return "".join(runs).strip()


def _cells(row: ElementTree.Element, strings: list[str], columns: dict[str, int]) -> list[str]:
    """The cells of a row; `columns` remembers the references seen.

    Raises
    ------
    ValueError, IndexError
        If a cell is out of place or its string is not there.
    """
    prefix = row.tag[: -len("row")]
    value, inline = f"{prefix}v", f"{prefix}is"
    cells: list[str] = []
    for cell in row:
        reference = cell.get("r")
        column = len(cells) if reference is None else _column(reference, columns)
        if not len(cells) <= column < MAX_COLUMNS:
            raise ValueError(f"cell {reference} is out of place")
        if column > len(cells):
            cells.extend([""] * (column - len(cells)))
        text = (cell.findtext(value) or "").strip()
        kind = cell.get("t")
        if kind == "s" and text:
            text = strings[int(text)]
        elif kind == "inlineStr":
            found = cell.find(inline)
            text = "" if found is None else _text(found)
        cells.append(text)
    return cells


def _column(reference: str, columns: dict[str, int]) -> int:
    """Column of a reference such as `ZN1023`, from 0; below 0 if it is none."""
    letters = reference.rstrip("0123456789")
    if letters not in columns:
        column = -1
        if _REFERENCE.fullmatch(reference):
            for letter in letters:
                column = (column + 1) * 26 + ord(letter) - ord("A")
        columns[letters] = column
    return columns[letters]
