"""Tiny XLSX workbooks, written as other programs write them: part by part."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
BROKEN_CORE = """<?xml version="1.0"?>
<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<dcterms:created xsi:type="dcterms:W3CDTF">2024-03-19T 9:05:00Z</dcterms:created><oops>
"""
"""What some real workbooks carry (`T 9:`), and not even XML besides."""

Table = Sequence[Sequence[Any]]


def write_xlsx(
    path: Path,
    sheets: dict[str, Table],
    *,
    strings: str = "shared",
    errors: bool = False,
    references: bool = True,
    prolog: str = "",
    dates_from_1904: bool = False,
    replace: dict[str, str | None] | None = None,
) -> Path:
    """Write a workbook.

    Parameters
    ----------
    sheets
        Rows of cells by name of the sheet: text, numbers, and None for a cell that is not written;
        a row of none is left out.
    strings
        Texts as `shared` strings, `inline`, or shared as `rich` text with a reading aid.
    errors
        `#N/A` as an error value instead of a text.
    references
        Whether rows and cells say where they are.
    prolog
        Put before the root element of each sheet.
    replace
        Other content for some parts; None as content leaves a part out.
    """
    table: list[str] = []
    parts = {
        "[Content_Types].xml": "<Types/>",
        "docProps/core.xml": BROKEN_CORE,
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">'
        f'<workbookPr date1904="{int(dates_from_1904)}"/><sheets>'
        + "".join(
            f'<sheet name={quoteattr(name)} sheetId="{n}" r:id="rId{n}"/>'
            for n, name in enumerate(sheets, start=1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">'
        + "".join(
            f'<Relationship Id="rId{n}" Type="{OFFICE}/worksheet"'
            f' Target="worksheets/sheet{n}.xml"/>'
            for n in range(1, len(sheets) + 1)
        )
        + f'<Relationship Id="rIdS" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/>'
        + "</Relationships>",
    }
    for n, rows in enumerate(sheets.values(), start=1):
        body = "".join(
            _row(number, cells, table, strings, errors, references)
            for number, cells in enumerate(rows, start=1)
        )
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f'<?xml version="1.0"?>{prolog}<worksheet xmlns="{MAIN}"><sheetData>{body}</sheetData>'
            '<pageMargins left="0.02"/></worksheet>'
        )
    if table:
        parts["xl/sharedStrings.xml"] = (
            f'<sst xmlns="{MAIN}">' + "".join(_string(text, strings) for text in table) + "</sst>"
        )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in (parts | (replace or {})).items():
            if content is not None:
                file.writestr(name, content)
    return path


def _row(
    number: int, cells: Sequence[Any], table: list[str], strings: str, errors: bool, placed: bool
) -> str:
    if placed and all(cell is None for cell in cells):
        return ""
    body = "".join(
        _cell(f"{_letters(at)}{number}" if placed else "", cell, table, strings, errors)
        for at, cell in enumerate(cells)
        if cell is not None or not placed
    )
    return f'<row r="{number}">{body}</row>' if placed else f"<row>{body}</row>"


def _cell(reference: str, cell: Any, table: list[str], strings: str, errors: bool) -> str:
    place = f' r="{reference}"' if reference else ""
    if cell is None:
        return f"<c{place}/>"
    if isinstance(cell, str):
        if errors and cell == "#N/A":
            return f'<c{place} t="e"><v>#N/A</v></c>'
        if strings == "inline":
            return f'<c{place} t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
        if cell not in table:
            table.append(cell)
        return f'<c{place} t="s"><v>{table.index(cell)}</v></c>'
    return f'<c{place} s="4"><f>1+1</f><v>{cell!r}</v></c>'


def _string(text: str, strings: str) -> str:
    if strings != "rich":
        return f"<si><t> {escape(text)} </t></si>"
    half = len(text) // 2
    runs = "".join(f"<r><rPr/><t>{escape(part)}</t></r>" for part in (text[:half], text[half:]))
    return f'<si>{runs}<rPh sb="0" eb="1"><t>aloud</t></rPh></si>'


def _letters(column: int) -> str:
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
