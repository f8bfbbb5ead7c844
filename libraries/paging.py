"""Pages of rows that come and go: the next page is what has a smaller key, whether or not the last row still exists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404
from django.utils.translation import gettext as _

M = TypeVar("M", bound=Model)
_KEY = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class Listed(Generic[M]):
    rows: list[M]
    #: The key that the next page comes before; None where this is the last one.
    next_before: int | None
    is_first: bool


def page_before(rows: QuerySet[M], before: str | None, size: int) -> Listed[M]:
    """The newest `size` rows with a key below `before`."""
    if before is not None:
        if not _KEY.fullmatch(before):
            raise Http404(_("This page of the list doesn't exist. Start again from its beginning."))
        rows = rows.filter(pk__lt=int(before))
    found = list(rows.order_by("-pk")[: size + 1])
    shown = found[:size]
    return Listed(shown, shown[-1].pk if len(found) > size else None, before is None)
