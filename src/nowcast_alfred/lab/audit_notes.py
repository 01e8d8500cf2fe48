"""What no check can close, and what a person must judge: memory, and rights."""

from __future__ import annotations

from collections import Counter

from ..periods import iso
from ..targets import may_train
from .audit_case import Case, Finding

MEMORY = "the model's memory"
RIGHTS = "rights (no route to the answer)"


def memory(case: Case) -> Finding:
    """What is in use against a model that remembers the numbers."""
    config = case.taskset.config
    sources = {case.store.meta(key).source for key in case.stream.space.series}
    synthetic = all("synthetic" in source.lower() for source in sources)
    evidence = {
        "model_cutoff": str(config.model_cutoff) if config.model_cutoff else "not set",
        "opaque": bool(getattr(config, "opaque", False)),
        "synthetic store": synthetic,
        "last release": iso(max(draw.release for draw in case.draws)),
    }
    return Finding(
        MEMORY,
        "cannot be closed",
        "which of the means against it are in use",
        evidence,
        "measure it: configs/eval/recall.toml, then nowcast-alfred recall RUN_WITH RUN_WITHOUT",
    )


def rights(case: Case) -> Finding:
    """Whether the sampled series may be trained on, by what each says of itself."""
    roles = {key: targets.role for key, targets in case.stream.space.series.items()}
    kinds = Counter(role.training.split(":")[0] for role in roles.values())
    sources = Counter(case.store.meta(key).source or "unknown" for key in roles)
    barred = [key for key, role in roles.items() if not may_train(role, "granted")]
    return Finding(
        RIGHTS,
        "note",
        "`training` of every sampled series",
        {
            "series": len(roles),
            "training": dict(sorted(kinds.items())),
            "sources": dict(sorted(sources.items())),
            "may be trained on": not barred,
        },
        'train with rights = "granted", or on a store whose series are granted' if barred else "",
    )
