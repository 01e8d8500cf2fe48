"""What a download has fetched so far, on disk: a resumed one asks only for what is missing.

Each answer is written whole, under a name that says what was asked for, as soon as it is there. A
kill loses the requests in flight and nothing else. The folder goes away when all of it has been
published; until then its answers are good for some hours, since a source moves on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..store.files import atomic_write


class Staging:
    """Answers kept in a folder, by series and question.

    Parameters
    ----------
    folder
        Where to keep them; made when the first one comes.
    hours
        How long an answer is good for.
    """

    def __init__(self, folder: Path, hours: float) -> None:
        self.folder = folder
        self.reused: list[str] = []
        """The series of each answer that was there already."""
        self._seconds = hours * 3600
        self._stopped = False

    def fetch(self, series_id: str, question: str, ask: Callable[[], Any]) -> Any:
        """The kept answer to a question, or the one that `ask` gets, which is then kept.

        Parameters
        ----------
        series_id, question
            Together the name of the answer; a question that changes is another question.
        ask
            Gets the answer, as JSON values.
        """
        if self._stopped:
            raise StoreError("the download was stopped")
        name = hashlib.sha256(question.encode()).hexdigest()[:24]
        path = self.folder / series_id / f"{name}.json"
        try:
            kept = json.loads(path.read_bytes())
            if kept["question"] == question and time.time() - kept["time"] < self._seconds:
                self.reused.append(series_id)
                return kept["answer"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not kept, or not whole: ask again
        answer = ask()
        record = {"question": question, "time": time.time(), "answer": answer}
        atomic_write(path, json.dumps(record).encode())
        return answer

    def stop(self) -> None:
        """Let no more be asked for; what is being asked is still kept."""
        self._stopped = True

    def drop(self, series_id: str) -> None:
        """Drop the answers about one series: they contradict each other."""
        shutil.rmtree(self.folder / series_id, ignore_errors=True)

    def clear(self) -> None:
        """Drop everything kept."""
        shutil.rmtree(self.folder, ignore_errors=True)
