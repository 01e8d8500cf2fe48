"""Pages taken apart, and made-up runs with everything that a report reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from canned_runs import Episode, episode, failed

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Document(HTMLParser):
    """A page taken apart: what html.parser finds in it, and what is wrong with its markup."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.labels: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]
        self.faults += [f"id {name} twice" for name, n in Counter(self.ids).items() if n > 1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        held = dict(attrs)
        if len(held) < len(attrs):
            self.faults.append(f"<{tag}> has an attribute twice")
        self.ids += [held["id"] or ""] if "id" in held else []
        self.links += [held[name] or "" for name in ("href", "src") if name in held]
        self.labels += [held["aria-label"] or ""] if tag == "svg" else []


def sound(text: str) -> Document:
    """A page that is well formed, has its links inside itself, and a name for every picture."""
    document = Document(text)
    assert document.faults == []
    inside = {f"#{name}" for name in document.ids}
    assert set(document.links) - {"data:,"} <= inside
    assert inside <= set(document.links), "every part is in the contents"
    assert document.tags["script"] == document.tags["img"] == document.tags["iframe"] == 0
    assert document.tags["svg"] == len(document.labels) == len(set(document.labels))
    assert all(document.labels)
    return document


# --- Made-up runs


def asked(
    series: str,
    forecast: float | None,
    *,
    first: float = 0.0,
    baseline: float = 1.0,
    scale: float = 2.0,
    reward: float | None = None,
    prompt: str = "Forecast it.",
    reply: str = "FORECAST: 1",
    lookups: int = 1,
    days: int = 20,
    period: str = "2020-03-01",
    **spread: Any,
) -> Episode:
    """One rollout of a task, with everything that a report reads."""
    gain = -1.0 if forecast is None else (abs(baseline - first) - abs(forecast - first)) / scale
    held = {
        "series_id": series, "reference_period": period, "forecast": forecast, "first": first,
        "baseline": baseline, "scale": scale, "interval": None, "quantiles": None,
        "reason": "" if forecast is not None else "not a number: soon", "training": "granted",
    }  # fmt: skip
    key = f"{series}:{period}"
    data = {"name": f"{series} as of a day", "horizon_days": days, "store": "f" * 64}
    nodes = [
        {"message": {"role": "user", "content": prompt}},
        {"parent": 0, "message": {"role": "assistant", "content": reply}},
    ]
    return episode(
        key,
        forecast,
        rewards={"beats_baseline": (gain if reward is None else reward, 1.0)},
        task={"type": "NowcastTask", "data": data, "key": key},
        info={"nowcast": {**held, **spread}},
        metrics={"parsed": float(forecast is not None), "lookups": float(lookups)},
        nodes=nodes,
    )


def several() -> Iterable[Episode]:
    for i in range(12):
        yield asked(f"S{i % 4}", 0.1 * i, period=f"20{10 + i}-03-01", lookups=i, days=7 * i + 1)
    yield asked("S1", None, reply="soon")
    yield failed("S9:2020-03-01", "no <box>")
