"""What a download has fetched so far, on disk: a resumed build asks only for what is missing.

Each answer is written whole, under a name that says what was asked for, as soon as it is there. A
kill loses the requests in flight and nothing else. The folder goes away when the build has
published.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..store.files import atomic_write

STAGING = ".staging"


class Staging:
    """Answers kept in a folder, by series and question."""

    def __init__(self, root: Path) -> None:
        self.folder = root / STAGING

    def fetch(self, series_id: str, question: str, ask: Callable[[], Any]) -> Any:
        """The kept answer to a question, or the one that `ask` gets, which is then kept.

        Parameters
        ----------
        series_id, question
            Together the name of the answer; a question that changes is another question.
        ask
            Gets the answer, as JSON values.
        """
        name = hashlib.sha256(question.encode()).hexdigest()[:24]
        path = self.folder / series_id / f"{name}.json"
        try:
            kept = json.loads(path.read_bytes())
            if kept["question"] == question:
                return kept["answer"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not kept, or not whole: ask again
        answer = ask()
        atomic_write(path, json.dumps({"question": question, "answer": answer}).encode())
        return answer

    def clear(self) -> None:
        """Drop everything kept."""
        shutil.rmtree(self.folder, ignore_errors=True)
