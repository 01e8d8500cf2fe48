"""FRED's terms, in plain words, and what a series of FRED carries because of them."""

from __future__ import annotations

from ..errors import PermissionMissing

NOTICE = (
    "This product uses the FRED(R) API but is not endorsed or certified by the Federal Reserve "
    "Bank of St. Louis."
)
LICENCE = (
    "FRED terms of use (June 2024): no storing, caching or archiving, no use in developing or "
    "training machine learning, without written permission"
)

TERMS = f"""\
FRED's terms of use (as of June 2024, read again in October 2026) do not allow, without the bank's
written permission:
  - storing, caching or archiving FRED or ALFRED content, or putting it into a database;
  - using it in connection with developing or training software, systems or machine learning, large
    language models named. This holds for educational and personal use too.
A store of ALFRED vintages is an archive, and an environment built on it is used for training. Ask
the Federal Reserve Bank of St. Louis (https://fred.stlouisfed.org/legal/, contact for permissions).
Single series may have owners of their own, whose permission you need as well.

Without that limit: the embedded synthetic store (`store synth`), first-hand statistics of US
agencies (BLS, BEA, Census, the Board: public domain, citation asked) and of the ONS (Open
Government Licence). Nobody here is a lawyer: read the terms.

If you have permission, say who permitted what; the store keeps it as the rights of its series:
  --fred-permission "St. Louis Fed, letter of 2026-05-04: storage and model training at Acme"

{NOTICE}
"""

OWNED = ("copyrighted", "permission required")
"""How FRED's tags, and the catalogs, say that a series has an owner besides FRED."""


def training_right(permission: str | None) -> str:
    """The `training` of series built under a stated permission.

    Raises
    ------
    PermissionMissing
        If none was stated; the message is the terms.
    """
    stated = " ".join((permission or "").split())
    if not stated:
        raise PermissionMissing(TERMS)
    return f"permission: {stated}"


def may_store(training: str) -> bool:
    """Whether the rights of a series in a store cover more of FRED's content in it."""
    return training == "granted" or training.startswith("permission:")


def restriction(tags: list[str], stated: str) -> str:
    """What is said of the copyright of a series, by its tags and else by the catalog."""
    return "; ".join(sorted(tag for tag in tags if tag.startswith("copyrighted"))) or stated


def is_restricted(copyright: str) -> bool:
    """Whether a series has an owner whose terms apply besides FRED's."""
    return any(text in copyright for text in OWNED)
