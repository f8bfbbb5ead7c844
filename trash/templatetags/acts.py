"""The panel of a plan's page: that page belongs to a room that knows nothing of acting."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.context import RequestContext

from accounts.guarding import person
from duplicates.models import Plan
from trash.panel import panel_of

register = template.Library()


@register.inclusion_tag("acts/_panel.html", takes_context=True)
def act_panel(context: RequestContext, plan: Plan) -> dict[str, Any]:
    return panel_of(plan, person(context["request"]))
