"""Reports: a store, or one or several runs, as one HTML file that can be sent and opened anywhere.

Which kind a place is shows from what lies in it. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..locate import store_uri
from ..store.files import Files, without_secrets
from ..store.manifest import MANIFEST
from .report_run import run_report
from .report_store import place_name, store_report
from .traces import TRACES

SUFFIX = "-report.html"
KINDS = (
    f"a report is of the folder of a vf-eval run (it holds {TRACES}), or of a store, a folder or "
    f"an s3:// URI (it holds {MANIFEST})"
)


def write_report(
    places: Sequence[str],
    output: Path | None = None,
    series: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the report of a store, or of one or several runs.

    Parameters
    ----------
    places
        One store, or folders of runs.
    output
        The file to write; None for the place of `default_output`.
    series
        Whose revision triangle the report of a store shows; None for the most revised.
    progress
        Called after each series of a store with how many are done, of how many.

    Returns
    -------
    The file that was written.

    Raises
    ------
    InputError
        If a place is neither a run nor a store, or these places make no report together.
    """
    stores = [place for place in places if is_store(place)]
    if not places or (stores and len(places) > 1):
        raise InputError(
            f"{len(places)} places, {len(stores)} of them stores: give one store, "
            "or one or several runs"
        )
    if stores:
        text = store_report(store_uri(stores[0]), series, progress)
    elif series is not None:
        raise InputError("--series chooses the revision triangle of a store; a run has none")
    else:
        text = run_report([Path(place) for place in places])
    file = output or default_output(places, bool(stores))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def is_store(place: str) -> bool:
    """Whether a place is a store, or else a run.

    Raises
    ------
    InputError
        If it is neither; the message says what each holds.
    """
    folder = None if "://" in place else Path(place)
    if folder is not None and (folder / TRACES).is_file():
        return False
    try:
        if folder is not None and folder.is_file():
            raise FileNotFoundError(place)
        Files(store_uri(place)).read(MANIFEST)
    except FileNotFoundError:
        where = without_secrets(place)
        raise InputError(f"{where} is neither a run nor a store: {KINDS}") from None
    return True


def default_output(places: Sequence[str], store: bool) -> Path:
    """Beside a run, or in `outputs` for a store: a report is never written into what it is of."""
    if store:
        return Path("outputs") / (place_name(places[0]) + SUFFIX)
    first = Path(places[0]).absolute()
    return first.parent / ("report.html" if len(places) > 1 else first.name + SUFFIX)
