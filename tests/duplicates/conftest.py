"""Fixtures for the tests of groups, folders, rules and plans."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import Role
from tests.pages import logged_in


@pytest.fixture
def viewer() -> Client:
    return logged_in(Role.VIEWER)


@pytest.fixture
def operator() -> Client:
    return logged_in(Role.OPERATOR)
