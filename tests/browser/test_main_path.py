"""The main path from the login to the undo: one story, told by keyboard, by touch and with JavaScript off.

Server, consumer and folder are real, and nothing is done or looked up but on pages and on the disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from accounts.models import Role
from tests import factories
from tests.browser import main_path
from tests.browser.conftest import Visit
from tests.browser.main_path_disk import Photos
from tests.browser.main_path_hands import Hands, Keyboard, NoScript, Touch
from tests.conftest import Consumers

pytestmark = pytest.mark.django_db


@pytest.fixture
def photos(tmp_path: Path, settings: Settings, start_consumer: Consumers) -> Photos:
    """A disk, and a consumer that shares its state folder with the server."""
    settings.STATE_ROOT = tmp_path / "state"
    settings.LIBRARIES_ROOTS = [tmp_path / "disk"]
    settings.ACT_GRACE_SECONDS = 1
    start_consumer()
    return Photos.below(tmp_path / "disk" / "photos")


@pytest.mark.parametrize("kind", [Keyboard, Touch, NoScript], ids=["keyboard", "phone", "without JavaScript"])
def test_the_main_path(visit: Visit, photos: Photos, kind: type[Hands]) -> None:
    factories.user("ada", Role.ADMIN)
    hands = kind(visit(None, "/", **kind.options))
    main_path.log_in(hands)
    main_path.add_library(hands)
    main_path.scan(hands)
    main_path.watch_progress(hands)
    main_path.cancel(hands)
    main_path.scan_without_limit(hands)

    main_path.write_rules(hands)
    assert main_path.read_groups(hands) == photos.names
    main_path.apply_rules(hands)
    going = main_path.read_plan(hands, photos)
    assert photos.now() == photos.before

    main_path.allow_acting(hands)
    main_path.open_plan(hands)
    main_path.authorise(hands)
    assert photos.now() == {path: content for path, content in photos.before.items() if path not in going}
    assert main_path.read_trash(hands) == going
    main_path.count_groups(hands, "107 groups")

    main_path.undo(hands)
    assert photos.now() == photos.before
    assert main_path.read_trash(hands) == []
    main_path.count_groups(hands, "110 groups")
