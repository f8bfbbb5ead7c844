"""Which other authorised plan has a file of this one, in words: the database refuses it (`trash.objects`), a person
wants to know why."""

from __future__ import annotations

from django.db import connections
from django.utils.translation import gettext as _

from database.routing import POLICY
from libraries.names import to_display
from trash.models import Act

_OTHER = """
SELECT other.id, mine.relative_path FROM acts other
  JOIN plan_files theirs ON theirs.plan_id = other.plan_id
  JOIN plan_files mine ON mine.plan_id = %s AND mine.file_id = theirs.file_id
 WHERE other.verb = 'act' AND other.status IN ('authorised', 'running')
   AND NOT mine.is_out AND NOT theirs.is_out AND (mine.role = 'remove' OR theirs.role = 'remove')
 ORDER BY other.id, mine.id LIMIT 1"""


def clash_words(plan_id: int) -> str:
    """To be asked once the database has refused."""
    with connections[POLICY].cursor() as cursor:
        cursor.execute(_OTHER, [plan_id])
        found = cursor.fetchone()
    if found is None:
        return _("Another plan with files of this one was being carried out until this moment. Plan again.")
    other = Act.objects.get(pk=found[0])
    return _(
        "Plan %(plan)s, authorised by %(who)s, has files of this plan too, for example %(path)s. "
        "Wait until it is carried out or stop it, then plan again."
    ) % {"plan": other.plan_id, "who": other.authorised_by, "path": to_display(found[1])}
