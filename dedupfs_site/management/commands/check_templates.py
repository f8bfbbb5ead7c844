"""`manage.py check_templates`: every template of ours parses, and what it names exists."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.core.management.base import BaseCommand
from django.template import Engine, TemplateDoesNotExist, TemplateSyntaxError
from django.template.base import FilterExpression, Node, Template
from django.template.defaulttags import URLNode
from django.template.loader_tags import ExtendsNode, IncludeNode
from django.templatetags.static import StaticNode
from django.urls import NoReverseMatch, reverse


class Command(BaseCommand):
    help = "Load every template of DedupFS and report what can't be parsed or found."

    def handle(self, *_: Any, **__: Any) -> None:
        engine = Engine.get_default()
        names = sorted(template_names())
        problems = [f"{name}: {problem}" for name in names for problem in problems_of(engine, name)]
        for problem in problems:
            self.stderr.write(problem)
        if problems:
            sys.exit(1)
        self.stdout.write(f"{len(names)} templates are well.")


def template_names() -> Iterator[str]:
    folders = [Path(folder) for folder in settings.TEMPLATES[0]["DIRS"]]
    folders += [Path(app.path) / "templates" for app in apps.get_app_configs() if _is_ours(Path(app.path))]
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(folder).as_posix()


def _is_ours(app: Path) -> bool:
    return app.is_relative_to(settings.BASE_DIR) and "site-packages" not in app.parts


def problems_of(engine: Engine, name: str) -> Iterator[str]:
    try:
        template = engine.get_template(name)
    except (TemplateSyntaxError, TemplateDoesNotExist, UnicodeDecodeError) as error:
        yield str(error)
        return
    yield from _missing(engine, template)


def _missing(engine: Engine, template: Template) -> Iterator[str]:
    """What the template names literally and nobody has; names worked out at run time are not known here."""
    for node in template.nodelist.get_nodes_by_type(Node):
        if isinstance(node, ExtendsNode | IncludeNode):
            wanted = _literal(node.parent_name if isinstance(node, ExtendsNode) else node.template)
            if wanted and not _loads(engine, wanted):
                yield f"the template {wanted} can't be loaded"
        elif isinstance(node, StaticNode):
            wanted = _literal(node.path)
            if wanted and find(wanted) is None:
                yield f"there is no static file {wanted}"
        elif isinstance(node, URLNode):
            wanted = _literal(node.view_name)
            if wanted and not _has_address(wanted):
                yield f"there is no address named {wanted}"


def _literal(expression: Any) -> str:
    if isinstance(expression, FilterExpression) and isinstance(expression.var, str) and not expression.filters:
        return expression.var
    return ""


def _loads(engine: Engine, name: str) -> bool:
    try:
        engine.get_template(name)
    except (TemplateSyntaxError, TemplateDoesNotExist):
        return False
    return True


def _has_address(name: str) -> bool:
    """Whether the name is known, with whatever arguments."""
    try:
        reverse(name)
    except NoReverseMatch as error:
        return "pattern(s) tried" in str(error)
    return True
