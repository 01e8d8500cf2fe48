"""Downloads of RTDSM workbooks, which the server does not always give as asked for.

The plain link works for some clients; others get a web page with status 200 instead, and so does a
name that does not exist, so only the first bytes of an answer are believed. Where they are not a
workbook's, the series' page is read for the link with the query string that works today. Where
that fails too, the error names the page to open and the folder to put the file into.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import httpx
import tenacity

from ..catalog import Catalog
from ..errors import InputError, SourceError, SourceUnavailable
from .download import check_zip, download
from .rtdsm import workbooks

BASE_URL = "https://www.philadelphiafed.org"
FILES = "-/media/FRBP/Assets/Surveys-And-Data/real-time-data/data-files/xlsx"
PAGES = "surveys-and-data/real-time-data-research"
TRIES = 4
TIMEOUT = 60.0

_LINK = re.compile(r"""href\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_NAME = re.compile(r"([A-Z][A-Z0-9]*)[MQ]v[MQ]d", re.IGNORECASE)
_CONTACT = re.compile(r"[!-~]*[@.][!-~]*")


def fetch_workbooks(
    catalog: Catalog,
    contact: str,
    folder: str | Path,
    *,
    base_url: str = BASE_URL,
    again: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> list[Path]:
    """Download the workbooks of a catalog's series, one after the other.

    Parameters
    ----------
    catalog
        With series called `RTDSM_VARIABLE_M` or `_Q`.
    contact, folder, base_url, again
        As for `fetch_workbook`; workbooks in the folder already are kept, so that a download that
        was stopped goes on where it was.
    progress
        Called with the name of each workbook when it is there.
    """
    paths = []
    for name in workbooks(catalog).values():
        paths.append(fetch_workbook(name, contact, folder, base_url=base_url, again=again))
        progress(name)
    return paths


def fetch_workbook(
    name: str,
    contact: str,
    folder: str | Path,
    *,
    base_url: str = BASE_URL,
    again: bool = False,
    tries: int = TRIES,
    backoff: float = 1.0,
) -> Path:
    """Download one workbook, or keep the one that is there.

    Parameters
    ----------
    name
        Without suffix, such as `employMvMd`; the server takes any case.
    contact
        Who is asking, an e-mail address or a web address; goes into the User-Agent.
    folder
        Where to put it; made if it is not there.
    base_url
        Another server than the Philadelphia Fed's, for tests.
    again
        Download it even if it is there.
    tries, backoff
        How often each request is sent at the most, and the first wait in between, in seconds.

    Returns
    -------
    Path of the workbook, `name` with `.xlsx`.

    Raises
    ------
    InputError
        If the name is no workbook's, or there is no contact.
    SourceError
        If there is no workbook behind the plain link nor on the series' page.
    SourceUnavailable
        If the tries were used up.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(f"{name[:40]!r} is no workbook, such as employMvMd")
    if not _CONTACT.fullmatch(contact):
        raise InputError(
            f"contact {contact[:60]!r}: state an e-mail or web address, without blanks; it goes "
            "into the User-Agent"
        )
    path = Path(folder) / f"{name}.xlsx"
    if path.exists() and not again:
        return path
    headers = {"User-Agent": f"nowcast-alfred/{version('nowcast-alfred')} ({contact})"}
    base = base_url.rstrip("/")
    page = f"{base}/{PAGES}/{match[1].lower()}"

    def get(url: str) -> None:
        download(
            url,
            path,
            headers=headers,
            check=check_zip,
            tries=tries,
            timeout=TIMEOUT,
            backoff=backoff,
        )

    by_hand = f"open {page}, download {path.name} and put it into {folder}"
    try:
        try:
            get(f"{base}/{FILES}/{path.name}")
        except SourceUnavailable:
            raise
        except SourceError:  # a refusal, or a web page
            get(_link(page, path.name, headers, tries, backoff))
    except SourceUnavailable as error:
        raise SourceUnavailable(f"{error}. Else {by_hand}") from error
    except SourceError as error:
        raise SourceError(
            f"{path.name}: there is no workbook at the plain link nor behind one on the series' "
            f"page ({error}); {by_hand}"
        ) from error
    return path


def _link(page: str, file: str, headers: dict[str, str], tries: int, backoff: float) -> str:
    """The address of a file, from a link on a page of the same server."""
    here = httpx.URL(page)
    for groups in _LINK.findall(_text(page, headers, tries, backoff)):
        try:
            link = here.join(html.unescape("".join(groups)).strip())
        except httpx.InvalidURL:
            continue
        same = (link.scheme, link.netloc) == (here.scheme, here.netloc)
        if same and link.path.lower().endswith(f"/{file}".lower()):
            return str(link)
    raise SourceError(f"{page} has no link to {file}")


def _text(page: str, headers: dict[str, str], tries: int, backoff: float) -> str:
    """A web page, as text."""

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(httpx.HTTPError),
        stop=tenacity.stop_after_attempt(tries),
        wait=tenacity.wait_random_exponential(multiplier=backoff, max=60),
        reraise=True,
    )
    def get() -> httpx.Response:
        response = httpx.get(page, headers=headers, timeout=TIMEOUT, follow_redirects=True)
        if response.status_code == 429 or response.status_code >= 500:
            response.raise_for_status()
        return response

    try:
        response = get()
    except httpx.HTTPError as error:
        reason = f"no proper answer in {tries} tries; the last: {error}"
        raise SourceUnavailable(f"{page}: {reason}") from error
    if response.status_code != 200:
        raise SourceError(f"{page}: refused with status {response.status_code}")
    return response.text
