"""Which library is the one we made."""

from __future__ import annotations

from django import template

from dedupfs_site import first_run
from libraries.models import LibraryRoot

register = template.Library()


@register.filter
def is_demo(library: LibraryRoot) -> bool:
    return first_run.is_demo(library)
