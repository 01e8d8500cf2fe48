"""The embedded data set: an invented economy whose statistics are published and revised.

It lets everything run with no data and no key, and no model can have memorised it. Ids start with
`SYN_` and titles with "Synthetic: ". `synthetic_panel` lists the series; the process is this.

**Truth.** A monthly common factor of about unit size follows an AR(1). Three or four crises push it
down: two or three recessions of eight to sixteen months, and one abrupt collapse with a quick
rebound; their dates come from the seed. Each category has a factor of its own besides. A series
loads on both, early or late, directly or with inertia, and adds its own AR(1) and MA(1); quarterly
series take the mean of three months, weekly ones interpolate between months. What is simulated is
a level, a change or a percent growth; the latter two are cumulated. A few series that are not
seasonally adjusted carry a fixed seasonal pattern.

**Measurement.** The first print of a period differs from the truth by noise and by news that has
not come in yet: that share of the surprise is missing, so the print leans towards the mean (of a
change) or the last level. One to three later estimates, with the next releases or, in quarterly
accounts, in the two following months, take both away step by step. The changes of a calendar year
also share an error that only the annual benchmark removes: it rewrites the last years of levels,
settles all but the newest year, and moves a little what earlier ones had settled. Surveys are
hardly revised. Chained and index series get a new base year two or three times: one vintage then
rescales the whole history, and a metadata row valid from that very day names the new base.

**Publication.** All series of a release share its calendar: a lag, a weekday or a jitter, never a
weekend or a holiday. A government shutdown from `SHUTDOWN[0]` to `SHUTDOWN[1]` stops official
releases; what was due by the day a release resumes is then published together. One series is given
up before the end, one value is withdrawn and comes back, another stays withdrawn, and of one series
the vintage days are known only within five days. Each archive starts some years into the history,
with a first vintage that holds everything known on that day, and ends on `ARCHIVE_END`.

**Reproducibility.** The change points are the same to the last bit on any machine. Random numbers
are raw Philox words keyed by SHA-256 of (version, seed, series, purpose), so a new series or draw
moves no other; normals are sums of twelve uniforms. All arithmetic is +, -, *, / and rounding on
single IEEE doubles in a fixed order: no libm, no BLAS, no vectorised sum.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..periods import PERIODS_PER_YEAR, Frequency, iso, period_end, shift, to_date, to_days
from ..store.schema import VINTAGE_SCHEMA, SeriesMeta, normalise
from .synthetic_panel import ARCHIVE_END, FIRST_PERIOD, PLANS, RELEASES, SHUTDOWN, Plan, Release

SYNTHETIC_VERSION = 1
"""Part of every key and of the attribution; raised whenever a change point of any seed changes."""

_SIGNAL_START = 1993  # two years before the first period: burn-in, and room for lags
_SIGNAL_MONTHS = 12 * (2027 - _SIGNAL_START)  # and for leads after the last
_CALM_WINDOWS = ((1999, 2001), (2006, 2008), (2012, 2014))
_ABRUPT_WINDOW = (2017, 2020)
_ABRUPT = (-4.0, -8.0, 2.0, 3.0, 2.0, 1.0)
_DEFLATION = 1.021  # a chained series' step to the prices of the next year
_HOLIDAYS = ((1, 1), (7, 4), (12, 25))


@dataclass(frozen=True)
class SyntheticSeries:
    """One series: metadata rows (several where the base year changed) and its change points."""

    meta: list[SeriesMeta]
    table: pa.Table


def generate(seed: int = 0) -> list[SyntheticSeries]:
    """The whole panel for a seed, in the order of `synthetic_panel.PLANS`.

    Each `table` has the columns of `VINTAGE_SCHEMA` in canonical form (`schema.normalise`).
    """
    common = _factor(seed, "common", 0.85, 0.45, _crises(seed))
    sectors = {
        name: _factor(seed, f"sector/{name}", 0.5, 0.85, {})
        for name in {plan.category for plan in PLANS}
    }
    releases = {release.name: release for release in RELEASES}
    calendars = {name: _calendar(seed, release) for name, release in releases.items()}
    series = []
    for plan in PLANS:
        release = releases[plan.release]
        signal = _signal(plan, common, sectors[plan.category])
        office = _Office(plan, release, seed, _truth(plan, release.frequency, seed, signal))
        office.publish(calendars[release.name])
        series.append(SyntheticSeries(_metadata(plan, release, office), _table(plan, office)))
    return series


def _uniforms(seed: int, series: str, purpose: str, count: int) -> npt.NDArray[np.float64]:
    """`count` numbers in [0, 1) of the stream (seed, series, purpose)."""
    text = f"nowcast-alfred/synthetic/{SYNTHETIC_VERSION}/{seed}/{series}/{purpose}"
    key = np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype="<u8")
    raw = np.random.Philox(key=key.astype(np.uint64)).random_raw(count)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _normals(seed: int, series: str, purpose: str, count: int) -> list[float]:
    """About normal, mean 0, variance 1, within +-6: twelve uniforms less six (Irwin-Hall)."""
    columns = _uniforms(seed, series, purpose, 12 * count).reshape(count, 12)
    total = columns[:, 0]
    for column in range(1, 12):
        total = total + columns[:, column]
    return [float(value) for value in total - 6.0]


def _factor(
    seed: int, name: str, keep: float, size: float, pushes: dict[int, float]
) -> list[float]:
    """An AR(1) by month from `_SIGNAL_START` on, with pushes from outside."""
    shocks = _normals(seed, name, "shocks", _SIGNAL_MONTHS)
    factor, now = [], 0.0
    for month, shock in enumerate(shocks):
        now = keep * now + size * shock + pushes.get(month, 0.0)
        factor.append(now)
    return factor


def _crises(seed: int) -> dict[int, float]:
    """What crises add to the factor, by month; the last calm window is used every second time."""
    draws = iter(_uniforms(seed, "common", "crises", 16).tolist())
    pushes: dict[int, float] = {}
    for number, window in enumerate(_CALM_WINDOWS):
        start, length, depth, happens = (next(draws) for _ in range(4))
        if number == 2 and happens < 0.5:
            continue
        for month in range(8 + int(9 * length)):
            pushes[_month_in(window, start) + month] = -(0.35 + 0.25 * depth)
    start = _month_in(_ABRUPT_WINDOW, next(draws))
    for month, push in enumerate(_ABRUPT):
        pushes[start + month] = pushes.get(start + month, 0.0) + push
    return pushes


def _month_in(years: tuple[int, int], share: float) -> int:
    first = 12 * (years[0] - _SIGNAL_START)
    return first + int(share * 12 * (years[1] - years[0] + 1))


def _signal(plan: Plan, common: list[float], sector: list[float]) -> list[float]:
    """What both factors say about the series, by month."""
    signal, now = [], 0.0
    for month in range(_SIGNAL_MONTHS):
        source = min(max(month - plan.lag, 0), _SIGNAL_MONTHS - 1)
        new = plan.load * common[source] + plan.sector * sector[source]
        now = plan.smooth * now + (1.0 - plan.smooth) * new
        signal.append(now)
    return signal


def _truth(plan: Plan, frequency: Frequency, seed: int, signal: list[float]) -> list[float]:
    """The simulated quantity (level, change or growth) in every period."""
    periods, name = _periods(frequency), plan.truth_of or plan.id
    persistent = _normals(seed, name, "persistent", len(periods))
    transitory = _normals(seed, name, "transitory", len(periods))
    values, slow, before = [], 0.0, 0.0
    for index, period in enumerate(periods):
        slow = plan.phi * slow + plan.persist * persistent[index]
        shock = plan.noise * transitory[index]
        value = plan.mean + _signal_in(period, frequency, signal) + slow + shock + plan.ma * before
        values.append(max(value, plan.floor) if plan.kind == "level" else value)
        before = shock
    return values


def _signal_in(period: int, frequency: Frequency, signal: list[float]) -> float:
    date = to_date(period + 3 if frequency == "w" else period)
    month = 12 * (date.year - _SIGNAL_START) + date.month - 1
    if frequency == "m":
        return signal[month]
    if frequency == "q":
        return (signal[month] + signal[month + 1] + signal[month + 2]) / 3.0
    after = (date.day - 15) / 31.0  # from the middle of the month, where its value holds
    other = signal[month + 1] if after >= 0.0 else signal[month - 1]
    return signal[month] + abs(after) * (other - signal[month])


def _periods(frequency: Frequency) -> list[int]:
    """First days of all periods up to the end of the archive."""
    periods = [FIRST_PERIOD]
    while periods[-1] < ARCHIVE_END:
        periods.append(shift(periods[-1], frequency, 1))
    return periods


def _calendar(seed: int, release: Release) -> list[tuple[int, int]]:
    """Release days in order, each with the number of periods published by then."""
    periods = _periods(release.frequency)
    draws = _uniforms(seed, release.name, "calendar", len(periods) + 1).tolist()
    resumed = _working_day(SHUTDOWN[1] + 9 + int(7 * draws[-1]))

    def moved(day: int) -> int:
        day = _working_day(day)
        return resumed if release.government and SHUTDOWN[0] <= day <= resumed else day

    known: dict[int, int] = {}
    for index, period in enumerate(periods):
        due = period_end(period, release.frequency) + release.lag
        due += int((2 * release.jitter + 1) * draws[index]) - release.jitter
        if release.weekday is not None:
            due += (release.weekday - due - 3) % 7  # day 0, 1970-01-01, was a Thursday
        for day in (moved(due), *(moved(due + days) for days in release.later)):
            known[day] = max(known.get(day, 0), index + 1)
    return [(day, known[day]) for day in sorted(known)]


def _working_day(day: int) -> int:
    """`day`, or the next day that is neither a weekend nor a holiday."""
    while (day + 3) % 7 >= 5 or (to_date(day).month, to_date(day).day) in _HOLIDAYS:
        day += 1
    return day


@dataclass
class _Office:
    """The statistical office: what it holds to be true, and what it has published so far.

    `estimate` is the quantity as measured before the noise of young estimates, `level` what follows
    from it for the published history.
    """

    plan: Plan
    release: Release
    seed: int
    truth: list[float]
    rows: list[tuple[int, int, float | None]] = field(default_factory=list)
    """Period, vintage, value; whatever each release touched, changed or not."""
    rebased: list[tuple[int, int]] = field(default_factory=list)
    """(vintage, base year) for each base year."""

    def __post_init__(self) -> None:
        plan, count = self.plan, len(self.truth)
        self.periods = _periods(self.release.frequency)
        self.per_year = PERIODS_PER_YEAR[self.release.frequency]
        yearly = _normals(self.seed, plan.id, "bias", count // self.per_year + 1)
        self.bias = [plan.bias * yearly[index // self.per_year] for index in range(count)]
        self.noise = [
            [size * draw for draw in _normals(self.seed, plan.id, f"revision/{age}", count)]
            for age, size in enumerate(plan.revisions)
        ]
        pattern = _normals(self.seed, plan.id, "season", 12)
        self.season = [1.0 + plan.season * draw / 100.0 for draw in pattern]
        self.estimate = [value + bias for value, bias in zip(self.truth, self.bias, strict=True)]
        self.level = [0.0] * count
        self.scale = 1.0
        self.born: list[int] = []  # the number of the release that first had each period

    def publish(self, calendar: list[tuple[int, int]]) -> None:
        """Go through the releases in order and keep the change points of the archive."""
        plan, oldest, reworked = self.plan, 0, 0
        start, end = to_days(plan.archive), to_days(plan.ends) if plan.ends else ARCHIVE_END
        for number, (day, known) in enumerate(calendar):
            if day > end:
                break
            self.born += [number] * (known - len(self.born))
            while number - self.born[oldest] > len(plan.revisions) and oldest < known - 1:
                oldest += 1
            low, date = oldest, to_date(day)
            benchmark = reworked < date.year and 0 < self.release.benchmark_month <= date.month
            if benchmark:
                reworked = date.year
                low = min(low, self._benchmark(date.year, known))
            self._measure(number, low, known)
            if (benchmark and self._rebase(day, known)) or not self.rows:
                low = 0  # the first vintage of the archive holds the whole history
            if day >= start:
                self._print(day, number, low, known)

    def _benchmark(self, year: int, known: int) -> int:
        """Rework the last years; the first period that changed."""
        plan, first = self.plan, max(known - self.plan.window, 0)
        draws = _normals(self.seed, plan.id, f"benchmark/{year}", known - first)
        before = 0.0
        for index in range(first, known):
            settled = index < known - self.per_year
            # Older years have been through several benchmarks, so they move less.
            weight = (index - first + 1) / (known - first)
            moved = plan.reworked * weight * draws[index - first]
            step = moved if plan.kind == "level" else moved - before
            self.estimate[index] = self.truth[index] + step + (0.0 if settled else self.bias[index])
            before = moved
        return first

    def _rebase(self, day: int, known: int) -> bool:
        """Take the base year that this year's benchmark introduces, if any."""
        base = dict(self.plan.bases).get(to_date(day).year)
        if base is None:
            return False
        if "=100" in self.plan.units:
            total, count = 0.0, 0
            for index in range(known):
                if to_date(self.periods[index]).year == base:
                    total, count = total + self._unscaled(index), count + 1
            self.scale = 100.0 * count / total
        elif self.rebased:
            for _ in range(base - self.rebased[-1][1]):
                self.scale *= _DEFLATION
        self.rebased.append((day, base))
        return True

    def _measure(self, number: int, low: int, known: int) -> None:
        """Levels from period `low` on, as this release sees them."""
        plan = self.plan
        for index in range(low, known):
            value = self.estimate[index] + self._error(index, number - self.born[index])
            before = self.level[index - 1] if index else plan.start
            if plan.kind == "sum":
                value = before + value
            elif plan.kind == "growth":
                value = before * (1.0 + value / 100.0)
            self.level[index] = value

    def _error(self, index: int, age: int) -> float:
        """What the `age`-th revision still has wrong; 0 is the first print."""
        error = 0.0
        for noise in self.noise[age:]:
            error += noise[index]
        if age < len(self.plan.miss):
            cumulated = self.plan.kind != "level" or index == 0
            expected = self.plan.mean if cumulated else self.truth[index - 1]
            error -= self.plan.miss[age] * (self.truth[index] - expected)
        return error

    def _print(self, day: int, number: int, low: int, known: int) -> None:
        """Publish periods `low` to `known`, and any value that is withdrawn or comes back."""
        withdrawn = {to_days(period): span for period, *span in self.plan.withdrawn}
        below = [i for i in range(low) if self.periods[i] in withdrawn] if withdrawn else []
        for index in [*below, *range(low, known)]:
            gone, back = withdrawn.get(self.periods[index], (0, 0))
            age = number - self.born[index]
            hidden = 0 < gone <= age and (age < back or not back)
            value = None if hidden else self._value(index)
            self.rows.append((self.periods[index], day, value))

    def _value(self, index: int) -> float:
        unit = (1.0, 10.0, 100.0, 1000.0)[self.plan.decimals]
        return round(self._unscaled(index) * self.scale * unit) / unit

    def _unscaled(self, index: int) -> float:
        return self.level[index] * self.season[to_date(self.periods[index]).month - 1]


def _table(plan: Plan, office: _Office) -> pa.Table:
    period, vintage, value = zip(*office.rows, strict=True)
    days = np.array(vintage, dtype=np.int32)
    lower = pa.array(days - plan.bracket, pa.int32()) if plan.bracket else pa.nulls(len(days))
    columns = [
        pa.array(np.array(period, dtype=np.int32)).cast(pa.date32()),
        pa.array(days).cast(pa.date32()),
        pa.array(value, pa.float64()),
        lower.cast(pa.date32()),
    ]
    return normalise(pa.Table.from_arrays(columns, schema=VINTAGE_SCHEMA), plan.id)


def _metadata(plan: Plan, release: Release, office: _Office) -> list[SeriesMeta]:
    """One row, and one more from each day on which the archive shows a new base year."""
    first = office.rows[0][1]
    bases: list[tuple[str | None, int]] = [(None, 0)]
    for day, base in office.rebased:
        if day <= first:
            bases = [(None, base)]
        else:
            bases.append((iso(day), base))
    return [
        SeriesMeta(
            id=plan.id,
            title=f"Synthetic: {plan.title}",
            frequency=release.frequency,
            units=plan.units.format(base=base),
            seasonal_adjustment=plan.adjustment,
            release=f"Synthetic {release.name}",
            transform=plan.transform,
            max_lag_days=plan.max_lag_days,
            role=plan.role,
            category=plan.category,
            decimals=plan.decimals,
            source="synthetic",
            licence="MIT",
            attribution=f"nowcast-alfred synthetic data, version {SYNTHETIC_VERSION}",
            training="granted",
            valid_from=valid_from,
        )
        for valid_from, base in bases
    ]
