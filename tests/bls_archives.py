"""Made-up archives of payroll vintages with every trap of the real one, and a server of them."""

from __future__ import annotations

import datetime as dt
import io
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from panels import number

NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
BOM = b"\xef\xbb\xbf"
Value = Callable[[str, str], object]
"""(publication, reference month), both as YYYY-MM -> the cell; None or "" where it is empty."""


def months(first: str, last: str) -> list[str]:
    """Months in order, as YYYY-MM, both ends included."""
    low, high = (int(m[:4]) * 12 + int(m[5:]) - 1 for m in (first, last))
    return [f"{n // 12}-{n % 12 + 1:02d}" for n in range(low, high + 1)]


def column(month: str) -> str:
    """A month as the archive's header has it: `Jun_23`."""
    return f"{NAMES[int(month[5:]) - 1]}_{month[2:4]}"


def triangle(rows: Iterable[str], columns: Iterable[str], value: Value) -> str:
    """The text of a member; a publication has no month after its own."""
    columns = list(columns)
    lines = ["year,month," + ",".join(map(column, columns))]
    for row in rows:
        cells = [value(row, month) if month <= row else None for month in columns]
        shown = ",".join("" if cell is None else str(cell) for cell in cells)
        lines.append(f"{int(row[:4])},{int(row[5:])},{shown}")
    return "\n".join(lines) + "\n"


def packed(members: Mapping[str, str | bytes]) -> bytes:
    """A zip archive of members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def invented(key: str, row: str, month: str) -> int:
    """A level that is revised twice, and by each January's publication for five years."""
    age = min((int(row[:4]) - int(month[:4])) * 12 + int(row[5:]) - int(month[5:]), 2)
    benchmarks = min(max(int(row[:4]) - int(month[:4]), 0), 5)
    trend = 20_000 + 110 * (int(month[:4]) * 12 + int(month[5:]) - 1939 * 12)
    return trend + number(f"{key}/{month}/{age}/{benchmarks}", 300)


JUNE_2023 = {"2023-06": 156_204, "2023-07": 156_155, "2023-08": 156_075, "2024-01": 156_027}
"""Publication -> what BLS first said in it of total nonfarm employment in June 2023, seasonally
adjusted, in thousands. These are real, and 155,871 below; all other values here are invented."""


def nonfarm(row: str, month: str) -> object:
    """Total nonfarm: the real June of 2023 among invented months."""
    if month == "2023-06":
        if row >= "2025-01":
            return 155_871
        return JUNE_2023[max(known for known in JUNE_2023 if known <= row)]
    return invented("000000", row, month)


def industry(code: str) -> Value:
    """An industry in tenths, out since 2003."""
    return lambda row, month: invented(code, row, month) / 10


def whole() -> bytes:
    """The archive of January 2026: 273 publications, reference months from 1939; few members."""
    rows = months("2003-05", "2026-01")
    late, early = months("1990-01", "2026-01"), months("1939-01", "2026-01")
    construction = triangle(rows, late, industry("200000"))
    return packed(
        {
            "tri_000000_SA.csv": BOM + triangle(rows, early, nonfarm).encode(),
            "tri_000000_NSA.csv": triangle(rows, early, industry("000000/NSA")),
            "tri_200000_SA.csv": construction.replace("\n", "\r\n"),
            "tri_200000_NSA.csv": triangle(rows, late, industry("200000/NSA")),
            # An industry that the archive has since a change of classification only.
            "tri_424490_SA.csv": triangle(
                rows, late, lambda row, m: invented("424490", row, m) if row >= "2022-01" else ""
            ),
            "tri_999999_SA.csv": triangle(rows[:2], late, industry("999999")),
            "readme.txt": "not a member of ours",
        }
    )


SHUTDOWN = {"2025-09": "2025-11-20", "2025-10": "2025-12-16", "2025-11": "2025-12-16"}


def release_days() -> dict[str, str]:
    """Days by reference month: the next month's first Friday (invented, often right), and the
    real days of the shutdown."""
    days = {}
    for month in months("2003-05", "2026-01"):
        year, of = divmod(int(month[:4]) * 12 + int(month[5:]), 12)
        first = dt.date(year, of + 1, 1)
        days[month] = str(first + dt.timedelta(days=(4 - first.weekday()) % 7))
    return days | SHUTDOWN


def calendar(days: Mapping[str, str], release: str = "Employment Situation") -> str:
    """The text of a calendar."""
    rows = [f"{release},{month},{day}" for month, day in days.items()]
    return "\n".join(["release,reference_month,day", *rows]) + "\n"


# --------------------------------------------------------------------------------------- server


@dataclass
class Server:
    """Serves one file as BLS does: 403 to a client that names no contact. `faults` are taken in
    turn, one a request; without one, a request gets what it asked for."""

    body: bytes
    faults: list[str] = field(default_factory=list)
    etag: str | None = '"one"'
    last_modified: str | None = "Fri, 06 Feb 2026 13:30:00 GMT"
    ranges: bool = True
    agents: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Range header of each request."""

    def __enter__(self) -> Server:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/web/empsit/cesvinall.zip"

    def validates(self) -> bool:
        """Whether a client can tell by it that a file is still the same."""
        return bool(self.last_modified or (self.etag and not self.etag.startswith("W/")))

    def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                agent = self.headers.get("User-Agent", "")
                asked = self.headers.get("Range", "")
                server.agents.append(agent)
                server.asked.append(asked)
                fault = server.faults.pop(0) if server.faults else ""
                if "@" not in agent:
                    return self.page(403, "<html>Access Denied</html>")
                if fault == "html":
                    return self.page(200, "\n<!DOCTYPE html><html>Bandwidth limit</html>")
                if fault.isdigit():
                    return self.page(int(fault), "<html>no</html>", {"Retry-After": "0"})
                current = self.headers.get("If-Range") in (server.etag, server.last_modified)
                start = 0
                if asked and server.ranges and (current or fault == "mixed"):
                    start = int(asked.removeprefix("bytes=").removesuffix("-"))
                return self.file(start, fault)

            def page(
                self, status: int, text: str, headers: Mapping[str, str] | None = None
            ) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def file(self, start: int, fault: str) -> None:
                body = server.body
                if start >= len(body):
                    return self.page(416, "")
                self.send_response(206 if start else 200)
                if start:
                    shift = 1 if fault == "shifted" else 0
                    body = body[: start + 10] if fault == "piece" else body  # less than was asked
                    place = f"bytes {start + shift}-{len(body) - 1}/{len(server.body)}"
                    self.send_header("Content-Range", place)
                for name, value in (("ETag", server.etag), ("Last-Modified", server.last_modified)):
                    if value:
                        self.send_header(name, value)
                if fault == "unsized":
                    self.send_header("Connection", "close")
                else:
                    self.send_header("Content-Length", str(len(body) - start))
                self.end_headers()
                sent = body[start:]
                if fault in ("broken", "unsized"):  # the connection breaks in the middle
                    sent = sent[: len(sent) // 2]
                    self.close_connection = True
                self.wfile.write(sent)
                return None

        return Handler
