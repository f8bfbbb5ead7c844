"""What the site itself remembers: a few figures a day, for the charts of the overview."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class DailySample(models.Model):
    """The figures of one day in the configured time zone, as they were when they were last taken (`daily_samples`)."""

    day = models.DateField(unique=True)
    #: What stands in the index.
    file_count = models.BigIntegerField(db_default=0)
    total_bytes = models.BigIntegerField(db_default=0)
    #: What would come back if one copy of each group stayed.
    reclaimable_bytes = models.BigIntegerField(db_default=0)
    #: What lay in a trash.
    trashed_bytes = models.BigIntegerField(db_default=0)
    #: What removing for good had brought until then, all of it together.
    freed_bytes = models.BigIntegerField(db_default=0)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "daily_samples"

    def __str__(self) -> str:
        return f"figures of {self.day}"
