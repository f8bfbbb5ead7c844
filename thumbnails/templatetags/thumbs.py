"""Tiles: room for a picture, always of the same ratio, whether it is there, on its way, or never comes."""

from __future__ import annotations

from django import template
from django.template import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from frame.templatetags.frame import icon
from thumbnails.showing import Picture

register = template.Library()

NOTHING = mark_safe("")
WORDS = mark_safe('<span class="picture-words" data-words></span>')


@register.simple_tag(takes_context=True)
def picture(context: RequestContext, shown: Picture | None, media: str, size: str = "", alt: str = "") -> SafeString:
    """`media` names the icon for as long as there is no picture. A picture beside its name needs no `alt`.

    Written here and not in a template: a list has a hundred of them.
    """
    return format_html(
        '<span class="picture {}" data-media="{}"{}>{}{}{}</span>',
        size,
        media,
        NOTHING if shown is None or shown.is_whole else _asking(shown, alt),
        icon(f"media-{media}"),
        NOTHING if shown is None else _image(context, shown, alt),
        WORDS if size else NOTHING,
    )


def _asking(shown: Picture, alt: str) -> SafeString:
    return format_html(' data-thumb="{}" data-size="{}" data-alt="{}"', shown.file_id, shown.dimension, alt)


def _image(context: RequestContext, shown: Picture, alt: str) -> SafeString:
    """What HTMX loads is parsed as if there were no scripts: a `noscript` in it would load its picture as well."""
    found = shown.thumbnail
    if found is not None:
        return format_html(
            '<img class="thumb" src="{}" width="{}" height="{}" alt="{}" loading="lazy" decoding="async">',
            reverse("thumbs:content", args=[found.thumb_key]),
            found.width or "",
            found.height or "",
            alt,
        )
    if getattr(context.get("request"), "htmx", False):
        return NOTHING
    return format_html(
        '<noscript><img class="thumb" src="{}?size={}" width="{}" height="{}" alt="{}" decoding="async"></noscript>',
        reverse("thumbs:of_file", args=[shown.file_id]),
        *[shown.dimension] * 3,
        alt,
    )
