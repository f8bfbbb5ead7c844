"""Tiles: room for a picture, always of the same ratio, whether it is there, on its way, or never comes."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import RequestContext

from thumbnails.showing import Picture

register = template.Library()


@register.inclusion_tag("thumbnails/_picture.html", takes_context=True)
def picture(
    context: RequestContext, shown: Picture | None, media: str, size: str = "", alt: str = ""
) -> dict[str, Any]:
    """`media` names the icon for as long as there is no picture. A picture beside its name needs no `alt`.

    What HTMX loads is parsed as if there were no scripts: a `noscript` in it would load its picture as well.
    """
    request = context.get("request")
    is_htmx = bool(getattr(request, "htmx", False))
    return {"shown": shown, "media": media, "size": size, "alt": alt, "has_noscript": not is_htmx}
