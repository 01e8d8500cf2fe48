"""The synthetic panel as data: the releases, the series, and what happens to each.

`synthetic` tells how the numbers are made; here is only which series there are. Magnitudes are
per period and in the unit of the simulated quantity (see `Kind`), so they can be read against the
series' usual size. Nothing here is measured on real data; the orders of magnitude are familiar
ones, so that a forecaster's habits carry over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..periods import Frequency, Units, to_days

FIRST_PERIOD = to_days("1995-01-01")  # also a Sunday, on which weeks start
ARCHIVE_END = to_days("2025-01-31")
SHUTDOWN = (to_days("2013-10-01"), to_days("2013-11-11"))
"""First and last day on which the government publishes nothing."""

Kind = Literal["level", "sum", "growth"]
"""What is simulated: the level itself, its change, or its percent growth (both cumulated)."""


@dataclass(frozen=True)
class Release:
    """A publication: when its series come out, and when their history is reworked.

    The first print of a period is due `lag` days after the period's end, up to `jitter` days
    earlier or later, then on the next `weekday` (Monday is 0; None: any) that is a working day.
    """

    name: str
    frequency: Frequency
    lag: int
    weekday: int | None = None
    jitter: int = 0
    later: tuple[int, ...] = ()
    """Days after the first print on which the same period is estimated again."""
    benchmark_month: int = 0
    """The annual benchmark comes with the first release from this month on; 0 is never."""
    government: bool = True
    """Whether a government shutdown stops it."""


@dataclass(frozen=True)
class Plan:
    """One series: what is told about it, how its truth moves, and how it is measured."""

    id: str
    title: str
    units: str
    """`{base}` stands for the base year, where there is one."""
    release: str
    transform: Units
    max_lag_days: int
    category: str
    decimals: int
    kind: Kind
    archive: str
    """The archive holds the vintages from this day on; the first has all history known then."""
    mean: float
    truth_of: str = ""
    """Id of the series whose truth this one measures too, if not its own."""
    start: float = 0.0
    """Level before the first period, of a cumulated series."""
    load: float = 0.0
    """Loading on the common factor."""
    sector: float = 0.0
    """Loading on the factor shared by the series of the same category."""
    lag: int = 0
    """Months by which the series follows the factors; negative leads."""
    smooth: float = 0.0
    """Share of last month's signal that stays in this month's: inertia against the factors."""
    phi: float = 0.0
    persist: float = 0.0
    """The series' own AR(1): coefficient and innovation."""
    noise: float = 0.0
    ma: float = 0.0
    """The series' own MA(1): innovation and coefficient."""
    season: float = 0.0
    """Size of the seasonal pattern that is left in: percent of the level."""
    floor: float = 0.0
    """The least level of a series of kind `level` that must stay positive."""
    revisions: tuple[float, ...] = ()
    """Noise that each later estimate takes away; their number is the number of revisions."""
    miss: tuple[float, ...] = ()
    """Share of the news that is still missing in the first, second, ... estimate."""
    bias: float = 0.0
    """Error of a whole year's changes, which stays until a benchmark takes it away."""
    reworked: float = 0.0
    """Size of what a benchmark changes in past levels (new seasonal factors, new sources)."""
    window: int = 0
    """Periods that a benchmark rewrites."""
    bases: tuple[tuple[int, int], ...] = ()
    """(year of the benchmark that introduces it, base year)."""
    adjustment: str = "Seasonally Adjusted"
    role: str = "target"
    ends: str = ""
    """Last day on which the series is published, if it is given up."""
    bracket: int = 0
    """Days of doubt about the vintage day; 0: it is exact."""
    withdrawn: tuple[tuple[str, int, int], ...] = ()
    """(period, releases until it is withdrawn, releases until it is back; 0: never)."""


RELEASES = (
    Release("Labour Market Report", "m", 2, weekday=4, benchmark_month=2),
    Release("Job Vacancies", "m", 38, jitter=3, benchmark_month=3),
    Release("Industrial Output", "m", 15, jitter=1, benchmark_month=6),
    Release("Durable Goods Orders", "m", 26, jitter=2, benchmark_month=5),
    Release("Consumer Prices", "m", 13, jitter=2, benchmark_month=2),
    Release("Producer Prices", "m", 14, jitter=2, benchmark_month=3),
    Release("Retail Trade", "m", 14, jitter=1, benchmark_month=4),
    Release("Income and Spending", "m", 29, jitter=1, benchmark_month=8),
    Release("Residential Construction", "m", 17, jitter=1, benchmark_month=5),
    Release("New Home Sales", "m", 25, jitter=1, benchmark_month=5),
    Release("Regional Accounts", "m", 24, weekday=1, benchmark_month=3, government=False),
    Release("Money and Credit", "m", 22, weekday=3, benchmark_month=1, government=False),
    Release("Purchasing Managers", "m", 1, government=False),
    Release("Consumer Confidence", "m", -4, weekday=1, government=False),
    Release("District Survey", "m", -13, weekday=3, benchmark_month=1, government=False),
    Release("Weekly Claims", "w", 5, weekday=3, benchmark_month=3),
    Release("Mortgage Applications", "w", 4, weekday=2, government=False),
    Release("Fuel Prices", "w", 2, weekday=0),
    Release("Bank Balance Sheets", "w", 13, weekday=4, benchmark_month=9, government=False),
    Release("National Accounts", "q", 29, jitter=1, later=(30, 60), benchmark_month=7),
    Release("Productivity and Costs", "q", 36, jitter=2, later=(29,), benchmark_month=8),
    Release("Compensation Costs", "q", 30, weekday=4, benchmark_month=4),
    Release("House Prices", "q", 56, weekday=1, benchmark_month=5, government=False),
    Release("Regional Output", "q", 84, jitter=3, benchmark_month=9),
    Release("Investment Intentions", "q", 20, weekday=2, government=False),
)

_NSA = "Not Seasonally Adjusted"
_OUTPUT_BASES = ((1996, 1995), (2002, 1997), (2010, 2007), (2019, 2017))
_PRICE_BASES = ((1996, 1995), (2006, 2005), (2016, 2015))
_CHAIN_BASES = ((1996, 1995), (2003, 2000), (2009, 2005), (2018, 2012))

# fmt: off
_LABOUR = (
    Plan("SYN_PAYROLL", "Employees on payrolls, total", "Thousands of Persons",
         "Labour Market Report", "chg", 45, "labour", 0, "sum", "1997-03-01",
         mean=130, start=117_000, load=95, sector=20, phi=0.8, persist=18, noise=42,
         revisions=(40, 28), miss=(0.12, 0.04), bias=14, reworked=25, window=60),
    Plan("SYN_PAYMFG", "Employees on payrolls, manufacturing", "Thousands of Persons",
         "Labour Market Report", "chg", 45, "labour", 0, "sum", "1998-06-01",
         mean=-8, start=17_200, load=21, sector=6, phi=0.6, persist=4, noise=9, revisions=(9, 6),
         miss=(0.10, 0.03), bias=3, reworked=6, window=60),
    Plan("SYN_UNRATE", "Unemployment rate", "Percent",
         "Labour Market Report", "chg", 45, "labour", 1, "level", "1996-10-01",
         mean=5.4, load=-1.1, lag=1, smooth=0.85, phi=0.98, persist=0.06, noise=0.05, floor=1.0,
         reworked=0.05, window=60),
    Plan("SYN_EARNINGS", "Average hourly earnings", "Dollars per Hour",
         "Labour Market Report", "pch", 45, "labour", 2, "growth", "2000-02-01",
         mean=0.26, start=16.4, load=0.015, phi=0.93, persist=0.018, noise=0.13, ma=-0.35,
         revisions=(0.06, 0.03), reworked=0.08, window=36),
    Plan("SYN_VACANCIES", "Vacancies, all industries", "Thousands",
         "Job Vacancies", "chg", 70, "labour", 0, "level", "2003-05-01",
         mean=4_700, load=520, sector=90, lag=1, smooth=0.8, phi=0.97, persist=70, noise=105,
         floor=900, revisions=(70,), miss=(0.15,), reworked=60, window=48),
    Plan("SYN_CLAIMS", "Initial claims for unemployment benefit", "Thousands of Claims",
         "Weekly Claims", "lin", 12, "labour", 0, "level", "1998-01-15",
         mean=335, load=-42, sector=-6, smooth=0.35, phi=0.9, persist=7, noise=10, floor=120,
         revisions=(3,), reworked=5, window=156),
    Plan("SYN_CONTCLAIMS", "Continued claims for unemployment benefit", "Thousands of Claims",
         "Weekly Claims", "chg", 12, "labour", 0, "level", "2001-06-15",
         mean=2_750, load=-430, lag=1, smooth=0.9, phi=0.985, persist=16, noise=13, floor=900,
         revisions=(11, 5), reworked=18, window=156),
)

_OUTPUT = (
    Plan("SYN_INDPRO", "Industrial production, total", "Index {base}=100",
         "Industrial Output", "pch", 40, "output", 3, "growth", "1997-08-01",
         mean=0.17, start=70, load=0.27, sector=0.16, phi=0.5, persist=0.12, noise=0.28, ma=-0.2,
         revisions=(0.16, 0.09, 0.05), miss=(0.15, 0.06, 0.02), bias=0.04, reworked=0.12, window=60,
         bases=_OUTPUT_BASES),
    Plan("SYN_IPMFG", "Industrial production, manufacturing", "Index {base}=100",
         "Industrial Output", "pch", 40, "output", 3, "growth", "1999-02-01",
         mean=0.16, start=66, load=0.33, sector=0.20, phi=0.3, persist=0.10, noise=0.24, ma=-0.15,
         revisions=(0.19, 0.10, 0.05), miss=(0.18, 0.07, 0.02), bias=0.05, reworked=0.14, window=60,
         bases=_OUTPUT_BASES),
    Plan("SYN_DURABLES", "New orders, durable goods", "Millions of Dollars",
         "Durable Goods Orders", "pch", 55, "output", 0, "growth", "1999-09-01",
         mean=0.28, start=148_000, load=0.75, sector=0.5, lag=-1, noise=2.9, ma=-0.55,
         revisions=(0.6, 0.25), miss=(0.10, 0.03), bias=0.06, reworked=0.5, window=36),
    Plan("SYN_SHIPMENTS", "Shipments, durable goods", "Millions of Dollars",
         "Durable Goods Orders", "pch", 55, "output", 0, "growth", "1999-09-01",
         mean=0.26, start=151_000, load=0.45, sector=0.35, lag=1, noise=0.9, ma=-0.4,
         revisions=(0.4, 0.2), bias=0.05, reworked=0.3, window=36, role="predictor"),
)

_PRICES = (
    Plan("SYN_CPI", "Consumer prices, all items", "Index {base}=100",
         "Consumer Prices", "pch", 40, "prices", 3, "growth", "1996-09-01",
         mean=0.19, start=88, load=0.03, sector=0.10, phi=0.9, persist=0.035, noise=0.09,
         reworked=0.035, window=60, bases=_PRICE_BASES),
    Plan("SYN_CPICORE", "Consumer prices, without food and energy", "Index {base}=100",
         "Consumer Prices", "pch", 40, "prices", 3, "growth", "1997-04-01",
         mean=0.18, start=86, load=0.008, sector=0.02, lag=3, phi=0.96, persist=0.017, noise=0.05,
         reworked=0.025, window=60, bases=_PRICE_BASES),
    Plan("SYN_CPINSA", "Consumer prices, all items, unadjusted", "Index {base}=100",
         "Consumer Prices", "pc1", 40, "prices", 3, "growth", "1996-09-01",
         truth_of="SYN_CPI", mean=0.19, start=88, load=0.03, sector=0.10, phi=0.9, persist=0.035,
         noise=0.09, season=0.22, bases=_PRICE_BASES, adjustment=_NSA),
    Plan("SYN_PPI", "Producer prices, finished goods", "Index {base}=100",
         "Producer Prices", "pch", 42, "prices", 1, "growth", "1998-11-01",
         mean=0.17, start=91, load=0.09, sector=0.28, lag=-1, phi=0.6, persist=0.12, noise=0.3,
         revisions=(0.1, 0.08, 0.06), reworked=0.06, window=36, bases=_PRICE_BASES),
    Plan("SYN_FUEL", "Retail price of motor fuel", "Cents per Gallon",
         "Fuel Prices", "chg", 8, "prices", 1, "level", "2002-07-01",
         mean=272, load=14, sector=8, smooth=0.85, phi=0.99, persist=4.6, noise=0.7, floor=85,
         adjustment=_NSA, role="predictor"),
)

_SPENDING = (
    Plan("SYN_RETAIL", "Retail sales", "Millions of Dollars",
         "Retail Trade", "pch", 42, "consumption", 0, "growth", "1998-03-01",
         mean=0.34, start=178_000, load=0.22, sector=0.22, noise=0.55, ma=-0.35,
         revisions=(0.26, 0.14), miss=(0.15, 0.05), bias=0.05, reworked=0.25, window=48),
    Plan("SYN_RETAILNSA", "Retail sales, unadjusted", "Millions of Dollars",
         "Retail Trade", "pch", 42, "consumption", 0, "growth", "1998-03-01",
         truth_of="SYN_RETAIL", mean=0.34, start=178_000, load=0.22, sector=0.22, noise=0.55,
         ma=-0.35, season=5.0, revisions=(0.25, 0.13), miss=(0.12, 0.04), bias=0.05, reworked=0.15,
         window=36, adjustment=_NSA),
    Plan("SYN_INCOME", "Personal income", "Billions of Dollars",
         "Income and Spending", "pch", 60, "consumption", 1, "growth", "1997-11-01",
         mean=0.38, start=6_050, load=0.09, phi=0.3, persist=0.08, noise=0.18, ma=-0.2,
         revisions=(0.09, 0.06, 0.04), bias=0.03, reworked=0.15, window=40),
    Plan("SYN_SPENDING", "Real personal spending", "Billions of Chained {base} Dollars",
         "Income and Spending", "pch", 60, "consumption", 1, "growth", "1998-10-01",
         mean=0.24, start=5_300, load=0.11, sector=0.12, noise=0.25, ma=-0.3,
         revisions=(0.11, 0.07, 0.04), miss=(0.12, 0.05, 0.02), bias=0.03, reworked=0.12, window=40,
         bases=_CHAIN_BASES),
)

_HOUSING = (
    Plan("SYN_STARTS", "Housing starts", "Thousands of Units, Annual Rate",
         "Residential Construction", "pch", 45, "housing", 0, "level", "1998-08-01",
         mean=1_380, load=140, sector=60, lag=-1, smooth=0.85, phi=0.97, persist=32, noise=72,
         floor=350, revisions=(26, 12), miss=(0.08, 0.0), reworked=14, window=30),
    Plan("SYN_PERMITS", "Building permits", "Thousands of Units, Annual Rate",
         "Residential Construction", "pch", 45, "housing", 0, "level", "1999-08-01",
         mean=1_400, load=140, sector=60, lag=-2, smooth=0.85, phi=0.97, persist=32, noise=34,
         floor=380, revisions=(11,), reworked=10, window=30),
    Plan("SYN_NEWHOMES", "New homes sold", "Thousands of Units, Annual Rate",
         "New Home Sales", "chg", 52, "housing", 0, "level", "2000-01-15",
         mean=720, load=75, sector=40, lag=-2, smooth=0.8, phi=0.97, persist=17, noise=36,
         floor=180, revisions=(20, 12, 7), reworked=9, window=30),
    Plan("SYN_MORTGAGE", "Applications for mortgages", "Index, 1990=100",
         "Mortgage Applications", "pch", 10, "housing", 1, "level", "2000-09-01",
         mean=245, load=14, sector=14, smooth=0.7, phi=0.975, persist=8, noise=7, floor=45),
    Plan("SYN_HOUSEPRICE", "House prices, unadjusted", "Index {base}=100",
         "House Prices", "pch", 85, "housing", 2, "growth", "2001-05-01",
         mean=0.95, start=80, load=0.35, sector=0.2, lag=2, smooth=0.7, phi=0.85, persist=0.35,
         noise=0.25, season=0.9, revisions=(0.22, 0.11, 0.06), reworked=0.2, window=16,
         bases=((1996, 1995), (2004, 2000), (2012, 2010)), adjustment=_NSA),
)

_REGIONS = (
    Plan("SYN_REGACTIVITY", "Activity in the eastern region", "Index {base}=100",
         "Regional Accounts", "pch", 50, "regional", 2, "growth", "2002-02-01",
         mean=0.19, start=75, load=0.24, sector=0.12, smooth=0.3, phi=0.7, persist=0.09, noise=0.12,
         revisions=(0.09, 0.05, 0.03), miss=(0.2, 0.08, 0.03), bias=0.03, reworked=0.1, window=48,
         bases=((1996, 1995), (2008, 2004), (2017, 2012)), bracket=5),
    Plan("SYN_REGJOBS", "Employees in the western region", "Thousands of Persons",
         "Regional Accounts", "ch1", 50, "regional", 1, "growth", "2000-03-01",
         mean=0.11, start=2_480, load=0.08, sector=0.06, phi=0.5, persist=0.05, noise=0.1,
         season=0.8, revisions=(0.08, 0.04), bias=0.02, reworked=0.06, window=24, adjustment=_NSA,
         withdrawn=(("2008-05-01", 1, 4),)),
    Plan("SYN_REGOUTPUT", "Output of the southern region", "Millions of Chained {base} Dollars",
         "Regional Output", "pch", 115, "regional", 0, "growth", "2003-12-01",
         mean=0.6, start=171_000, load=0.5, sector=0.2, phi=0.4, persist=0.2, noise=0.45,
         revisions=(0.3, 0.15, 0.1), miss=(0.2, 0.1, 0.05), bias=0.1, reworked=0.35, window=14,
         bases=_CHAIN_BASES),
)

_MONEY = (
    Plan("SYN_MONEY", "Broad money", "Billions of Dollars",
         "Money and Credit", "pch", 50, "money", 1, "growth", "1996-12-01",
         mean=0.46, start=3_480, load=-0.06, sector=0.1, phi=0.85, persist=0.08, noise=0.15,
         revisions=(0.07, 0.04), reworked=0.12, window=48),
    Plan("SYN_CONSCREDIT", "Consumer credit outstanding", "Billions of Dollars",
         "Money and Credit", "chg", 50, "money", 1, "sum", "1999-05-01",
         mean=8.2, start=1_020, load=2.6, sector=1.0, lag=1, phi=0.7, persist=1.2, noise=3.0,
         revisions=(2.1, 1.0), miss=(0.15, 0.05), bias=0.8, reworked=3.0, window=36),
    Plan("SYN_BANKCREDIT", "Bank credit, all banks", "Billions of Dollars",
         "Bank Balance Sheets", "chg", 26, "money", 1, "sum", "2002-03-01",
         mean=6.1, start=3_350, load=1.4, sector=1.0, lag=2, phi=0.6, persist=3.0, noise=6.5,
         ma=-0.3, revisions=(2.6, 1.2), bias=0.6, reworked=4.0, window=104, role="predictor",
         withdrawn=(("2010-02-07", 2, 0),)),
)

_SURVEYS = (
    Plan("SYN_MFGSURVEY", "Purchasing managers, manufacturing", "Diffusion Index",
         "Purchasing Managers", "lin", 20, "surveys", 1, "level", "1997-01-01",
         mean=52.4, load=2.2, sector=0.8, lag=-1, smooth=0.4, phi=0.7, persist=0.9, noise=0.9,
         floor=15),
    Plan("SYN_CONFIDENCE", "Consumer confidence", "Index, 1985=100",
         "Consumer Confidence", "chg", 15, "surveys", 1, "level", "1998-05-01",
         mean=97, load=8, sector=2.0, smooth=0.75, phi=0.95, persist=3.0, noise=2.6, floor=15,
         revisions=(0.9,)),
    Plan("SYN_DISTRICT", "District business survey, general activity", "Percent Balance",
         "District Survey", "lin", 10, "surveys", 1, "level", "1998-02-01",
         mean=7.5, load=6.5, sector=2.5, lag=-1, phi=0.6, persist=4.0, noise=6.0, floor=-95,
         reworked=0.9, window=24, ends="2018-06-30"),
    Plan("SYN_CAPEX", "Investment intentions of firms", "Percent Balance",
         "Investment Intentions", "lin", 45, "surveys", 0, "level", "2000-01-01",
         mean=14, load=6.0, sector=2.0, lag=-2, smooth=0.5, phi=0.7, persist=2.5, noise=2.5,
         floor=-95),
)

_ACCOUNTS = (
    Plan("SYN_GDP", "Real gross domestic product", "Billions of Chained {base} Dollars",
         "National Accounts", "pca", 60, "output", 1, "growth", "1996-08-01",
         mean=0.72, start=9_800, load=0.42, sector=0.18, phi=0.3, persist=0.12, noise=0.24,
         revisions=(0.12, 0.06), miss=(0.18, 0.06), bias=0.08, reworked=0.22, window=14,
         bases=_CHAIN_BASES),
    Plan("SYN_CONSUMPTION", "Real private consumption", "Billions of Chained {base} Dollars",
         "National Accounts", "pca", 60, "consumption", 1, "growth", "1997-08-01",
         mean=0.66, start=6_500, load=0.27, sector=0.2, phi=0.5, persist=0.12, noise=0.18,
         revisions=(0.1, 0.05), miss=(0.12, 0.04), bias=0.06, reworked=0.16, window=14,
         bases=_CHAIN_BASES),
    Plan("SYN_INVESTMENT", "Real fixed investment", "Billions of Chained {base} Dollars",
         "National Accounts", "pca", 60, "output", 1, "growth", "1998-01-15",
         mean=0.9, start=1_480, load=1.25, sector=0.3, lag=1, phi=0.3, persist=0.4, noise=0.9,
         revisions=(0.4, 0.2), miss=(0.15, 0.05), bias=0.2, reworked=0.6, window=14,
         bases=_CHAIN_BASES),
    Plan("SYN_DEFLATOR", "Output deflator", "Index {base}=100",
         "National Accounts", "pca", 60, "prices", 3, "growth", "1997-01-15",
         mean=0.5, start=89, load=0.04, sector=0.08, phi=0.88, persist=0.07, noise=0.09,
         revisions=(0.04, 0.02), bias=0.03, reworked=0.08, window=14, bases=_CHAIN_BASES),
    Plan("SYN_PRODUCTIVITY", "Output per hour", "Index {base}=100",
         "Productivity and Costs", "pca", 75, "output", 3, "growth", "1999-08-01",
         mean=0.46, start=82, load=0.12, sector=0.15, lag=-1, noise=0.6, ma=-0.25,
         revisions=(0.2, 0.1), miss=(0.12, 0.04), bias=0.1, reworked=0.25, window=14,
         bases=_OUTPUT_BASES),
    Plan("SYN_LABOURCOST", "Unit labour costs", "Index {base}=100",
         "Productivity and Costs", "pca", 75, "prices", 3, "growth", "1999-08-01",
         mean=0.4, start=85, load=-0.08, sector=0.08, phi=0.7, persist=0.2, noise=0.65,
         revisions=(0.25, 0.15), bias=0.1, reworked=0.3, window=14, bases=_OUTPUT_BASES),
    Plan("SYN_COMPENSATION", "Compensation cost index", "Index {base}=100",
         "Compensation Costs", "pch", 60, "labour", 1, "growth", "2001-01-15",
         mean=0.75, start=84, load=0.04, lag=4, phi=0.9, persist=0.07, noise=0.1, reworked=0.08,
         window=20, bases=((1996, 1995), (2006, 2005), (2015, 2012))),
)
# fmt: on

PLANS = (
    *_LABOUR, *_OUTPUT, *_PRICES, *_SPENDING, *_HOUSING, *_REGIONS, *_MONEY, *_SURVEYS, *_ACCOUNTS
)  # fmt: skip
