"""Small archives with the numbers that caught users of other clients (fred_api.md, 2 and 3.1)."""

from __future__ import annotations

from typing import Any

from fake_fred import FakeSeries, growing_series, tag

TODAY = "2026-09-18"

# GDP. Archive start 1991-12-04; 1947 is back-filled in 1992; broken on 1999-10-28, mended a day
# later; the benchmark of 2013-07-31; three estimates; an unchanged third one; a shutdown.
GDP = {
    "1947-01-01": [("1992-12-22", "226.7"), ("1999-10-28", "."), ("1999-10-29", "237.2")],
    "1991-07-01": [
        ("1991-12-04", "5709.2"),
        ("1997-05-07", "5950.2"),
        ("1999-10-28", "."),
        ("1999-10-29", "6015.9"),
    ],
    "1995-10-01": [("1996-02-23", "7339.6"), ("1999-10-28", "."), ("1999-10-29", "7529.3")],
    "1999-07-01": [("1999-10-28", "9247.5")],
    "2003-07-01": [("2003-10-30", "11063.4"), ("2003-12-10", "."), ("2003-12-23", "11107.0")],
    "2013-01-01": [("2013-04-26", "16010.2"), ("2013-07-31", "16535.3")],
    "2013-04-01": [("2013-07-31", "16633.4")],
    "2013-07-01": [("2013-11-07", "16857.6")],
    "2013-10-01": [("2014-01-30", "17102.5"), ("2014-02-28", "17080.7"), ("2014-03-27", "17089.6")],
    "2014-01-01": [("2014-04-30", "16999.9"), ("2017-10-27", "16999.888")],
    "2018-10-01": [("2019-02-28", "20891.4"), ("2019-03-28", "20897.8")],
}
# Projections of three years, made at meetings; unchanged ones make no row.
FEDTARMD = {
    "2016-01-01": [("2016-06-15", "0.9"), ("2016-12-14", "0.6"), ("2017-03-15", ".")],
    "2017-01-01": [("2016-12-14", "1.4")],
    "2018-01-01": [("2016-12-14", "2.1")],
    "2019-01-01": [("2016-12-14", "2.9"), ("2017-03-15", "3.0")],
}
# A hole: no October 2025; it stays empty for good.
CPIAUCSL = {
    "2023-01-01": [("2023-02-14", "300.5")],
    "2023-02-01": [("2023-03-14", "301.6")],
    "2023-03-01": [("2023-04-12", "301.8")],
    "2013-08-01": [("2013-09-17", "233.9")],
    "2013-09-01": [("2013-10-30", "233.8")],
    "2013-10-01": [("2013-11-20", "233.7")],
    "2025-09-01": [("2025-10-24", "324.4")],
    "2025-10-01": [("2025-12-18", ".")],
    "2025-11-01": [("2025-12-18", "325.0")],
}
UNRATE = {
    "2023-07-01": [("2023-08-04", "3.5")],
    "2023-08-01": [("2023-09-01", "3.8"), ("2024-01-05", "3.7")],
}
GDPC1 = {
    "1999-10-01": [("2000-01-28", "9037.2"), ("2001-07-27", "8984.4")],
    "2000-01-01": [("2001-01-01", "9192.0"), ("2001-07-27", "9102.0"), ("2003-12-10", "9695.6")],
}
GNPCA = {"2018-01-01": [("2019-03-28", "18897.8"), ("2019-07-26", "18985.0")]}
INDPRO = {
    "2018-06-01": [("2018-07-17", "107.7"), ("2021-05-28", "103.5")],
    "2018-07-01": [("2018-08-15", "108.0"), ("2021-05-28", "103.9")],
    "2021-04-01": [("2021-05-14", "106.3"), ("2021-05-28", "99.9")],
}
INDPRO_META = [
    {"title": "Industrial Production", "units": "Index 2012=100"},
    {
        "title": "Industrial Production",
        "units": "Index 2017=100",
        "realtime_start": "2021-05-28",
    },
]
EMPIRE = {
    "2024-09-01": [("2024-09-16", "11.5")],
    "2024-10-01": [("2024-10-15", "-11.9")],
}
ICSA = {
    "2024-01-06": [("2024-01-11", "202000"), ("2024-01-18", "203000")],
    "2024-01-13": [("2024-01-18", "187000"), ("2024-01-25", "189000")],
}
WALCL = {
    "2024-01-03": [("2024-01-04", "7681024")],
    "2024-01-10": [("2024-01-11", "7686690")],
}
WEEKLY = {"frequency_short": "W", "seasonal_adjustment": "Seasonally Adjusted"}
M1SL = {
    "2020-04-01": [("2020-05-14", "4799.8")],
    "2020-05-01": [("2020-06-18", "5035.3"), ("2021-02-23", "16232.7")],
}
DFF_START, DFF_DAYS = "2005-01-03", 2_004
"""More vintages than one request may cover."""


def archives() -> list[FakeSeries]:
    """Every series of the traps."""
    quarterly = {"metadata": [{"frequency": "Quarterly", "frequency_short": "Q"}]}
    pre_approval = [tag("copyrighted: pre-approval required", "cc", 9)]

    def made(id: str, points: dict[str, list[tuple[str, str]]], **more: Any) -> FakeSeries:
        return FakeSeries(id, {date: list(rows) for date, rows in points.items()}, **more)

    saturday = {"frequency": "Weekly, Ending Saturday", **WEEKLY}
    return [
        made("GDP", GDP, **quarterly),
        made("FEDTARMD", FEDTARMD, metadata=[{"frequency": "Annual", "frequency_short": "A"}]),
        made("CPIAUCSL", CPIAUCSL, release=(10, "Consumer Price Index")),
        made("UNRATE", UNRATE),
        made("GDPC1", GDPC1, **quarterly),
        made("GNPCA", GNPCA, metadata=[{"frequency": "Annual", "frequency_short": "A"}]),
        made("INDPRO", INDPRO, metadata=INDPRO_META),
        made("EMPIRE", EMPIRE),
        made("ICSA", ICSA, metadata=[saturday]),
        made("WALCL", WALCL, metadata=[{"frequency": "Weekly, As of Wednesday", **WEEKLY}]),
        made("M1SL", M1SL),
        growing_series("DFF", DFF_START, DFF_DAYS, "d", revisions=0),
        made("SP500", {"2024-11-01": [("2024-11-01", "5728.8")]}, archived=False),
        made("GOLDPMGBD229NLBM", {"2020-01-01": [("2020-01-10", "1560.0")]}, restricted=True),
        made("VIXCLS", {"2020-01-01": [("2020-01-02", "13.8")]}, tags=pre_approval),
    ]


RELEASE_DATES = {
    10: ["2013-10-30", "2013-11-20", "2023-02-10", "2023-02-14", "2023-03-14", "2023-04-12"],
}
"""CPI: the seasonal factors of 2023-02-10 are a release too, and later vintages are not listed."""
