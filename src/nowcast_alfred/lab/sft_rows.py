"""The rows of warm-start data, and the folder they are written to.

`train.parquet` has the columns that prime-rl's SFT reads, `messages` and `tools`, and provenance
beside them; `manifest.json` says where the rows come from and counts them. Same rows, same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data import NowcastTrace
from ..rewards import INFO
from ..stream import Stream
from ..targets import SpaceConfig, may_train
from ..task import NowcastTask
from ..taskset import NowcastTaskset
from .sft_dialogue import Message

DATA, MANIFEST = "train.parquet", "manifest.json"
COUNTED = ("training", "method", "series_id")
"""Columns whose values the manifest counts."""

_CALL = pa.struct(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]
)
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("reasoning_content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("messages", pa.list_(_MESSAGE)),
        ("tools", pa.string()),
        ("task", pa.string()),
        ("series_id", pa.string()),
        ("reference_period", pa.string()),
        ("as_of", pa.string()),
        ("method", pa.string()),
        ("reward", pa.float64()),
        ("training", pa.string()),
        ("store", pa.string()),
    ]
)
"""`messages` and `tools` (a JSON text, since schemas of tools share no Arrow type) are what
prime-rl reads; the rest is provenance."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Export:
    """Rows, and what `manifest.json` says of them."""

    rows: list[Row]
    about: dict[str, Any]

    def notes(self) -> list[str]:
        """What to know before training on the rows."""
        about, settings = self.about, self.about["settings"]
        said = [
            f"mean reward {about['mean_reward']:+.3f}; longest row {about['longest']} characters"
        ]
        if about["passed_over"]:
            said.append(f"passed over: {listed(about['passed_over'])}")
        if "next" in about:
            said.append(f"for other rows go on with --start {about['next']}")
        if settings["eval_from"] is None and not settings["holdout_series"]:
            said.append(
                "nothing is held out: the settings have neither eval_from nor holdout_series"
            )
        if about["not_granted"]:
            said.append(
                f"{about['not_granted']} of {about['rows']} rows are of series that may not be "
                f"trained on without more ado (training rights: {listed(about['training'])}); "
                'rights = "granted" leaves them out'
            )
        return said


def row_of(
    task: NowcastTask, trace: NowcastTrace, messages: list[Message], tools: str, method: str
) -> Row:
    """A row of `SCHEMA`, of a scored trace."""
    data = task.data
    return {
        "messages": messages,
        "tools": tools,
        "task": task.key,
        "series_id": data.series_id,
        "reference_period": data.reference_period,
        "as_of": data.as_of,
        "method": method,
        "reward": trace.reward,
        "training": trace.info[INFO]["training"],
        "store": data.store,
    }


def describe(
    rows: list[Row], passed: Counter[str], taskset: NowcastTaskset, stream: Stream
) -> dict[str, Any]:
    """What a manifest says of rows, wherever they come from."""
    roles = {key: targets.role for key, targets in stream.space.series.items()}
    barred = [row for row in rows if not may_train(roles[row["series_id"]], "granted")]
    own = {"baseline", "elicit", "context", "opaque", "closed_egress"}
    return {
        "rows": len(rows),
        "passed_over": dict(sorted(passed.items())),
        "store": stream.space.store.fingerprint,
        "stream": stream.name,
        "settings": taskset.config.model_dump(
            mode="json", include={*SpaceConfig.model_fields, *own}
        ),
        "mean_reward": math.fsum(row["reward"] for row in rows) / len(rows) if rows else None,
        "longest": max(
            (len(row["tools"]) + len(json.dumps(row["messages"])) for row in rows), default=0
        ),
        "not_granted": len(barred),
        **{name: dict(sorted(Counter(row[name] for row in rows).items())) for name in COUNTED},
    }


def write(export: Export, folder: Path) -> None:
    """Write `train.parquet` and `manifest.json`, each in one step, over older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(export.rows, SCHEMA), sink, compression="zstd")
    data = sink.getvalue()
    about = {**export.about, "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps(about, indent=2) + "\n"
    for name, content in ((DATA, data), (MANIFEST, text.encode())):
        partial = folder / f".{name}.partial"
        partial.write_bytes(content)
        partial.replace(folder / name)


def listed(counts: Mapping[str, int]) -> str:
    """Counts in words."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "none"
