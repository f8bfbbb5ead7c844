"""`manage.py checkpoint`: have SQLite's write-ahead log written back into the database."""

from __future__ import annotations

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from ninja.responses import NinjaJSONEncoder

from accounts.command_line import actor
from jobs import stopping, wal_deciding
from jobs.models import WalMaintenanceJob

POLL_SECONDS = 0.2
#: Nothing is wrong, and trying again will not help: a script can tell it from a refusal.
DOES_NOT_APPLY_CODE = 2


class Command(BaseCommand):
    help = (
        "Ask for a checkpoint of SQLite's write-ahead log. Without --now a consumer carries it out. passive copies "
        "what nobody reads any more and disturbs nobody; restart waits for readers, so that the log begins anew; "
        "truncate also makes its file empty. Code 0: asked for, or with --now completed; 1: refused, busy or failed; "
        "2: the database is not SQLite."
    )
    requires_system_checks: list[str] = []  # they load every page, which this needs not

    def add_arguments(self, parser: CommandParser) -> None:
        modes = WalMaintenanceJob.Mode.values
        parser.add_argument("--mode", choices=modes, default="passive", help="How thoroughly (passive)")
        parser.add_argument("--now", action="store_true", help="Carry it out in this process; needs no consumer")
        parser.add_argument(
            "--force", action="store_true", help="Also if one was completed a moment ago, or waits for its next try"
        )
        parser.add_argument("--reason", default="", help="Why; written into the logbook")
        parser.add_argument("--json", action="store_true", dest="as_json", help="Print JSON, as the API does")

    def handle(self, *_args: Any, mode: str, now: bool, force: bool, reason: str, as_json: bool, **_o: Any) -> None:
        try:
            row = wal_deciding.request_checkpoint(mode, by=actor(), reason=reason[:500], is_forced=force)
        except wal_deciding.DoesNotApply as refusal:
            raise CommandError(str(refusal), returncode=DOES_NOT_APPLY_CODE) from None
        except wal_deciding.TooSoon as refusal:
            raise CommandError(f"{refusal} (--force)") from None
        except wal_deciding.Refused as refusal:
            raise CommandError(str(refusal)) from None
        if now:
            row = self._carry_out(row)
        self.stdout.write(json.dumps(_as_data(row), cls=NinjaJSONEncoder) if as_json else _words(row))
        if now and row.status != WalMaintenanceJob.Status.COMPLETED:
            self.stdout.flush()
            raise CommandError(f"{row.error_code or row.status}: {row.error_message or 'it waits for its next try'}")

    def _carry_out(self, row: WalMaintenanceJob) -> WalMaintenanceJob:
        """Here, or where a consumer was quicker: then it is waited for."""
        from jobs.checkpointing import carry_out_now

        stopping.listen()
        if row.status == "retryable":
            # One that was busy before: where no consumer runs, nobody else takes it up when its time has come.
            carry_out_now(row)
            row.refresh_from_db()
        while row.status in ("pending", "running"):
            if not carry_out_now(row):
                time.sleep(POLL_SECONDS)
            row.refresh_from_db()
            if stopping.is_requested():
                break
        return row


def _as_data(row: WalMaintenanceJob) -> dict[str, Any]:
    from jobs.wal_api import CheckpointOut

    return CheckpointOut.from_orm(row).model_dump()


def _words(row: WalMaintenanceJob) -> str:
    words = f"The {row.requested_mode} checkpoint {row.pk} is {row.status}"
    # SQLite says -1 where another checkpoint was in the way.
    has_figures = row.checkpointed_frames is not None and row.checkpointed_frames >= 0
    if has_figures and row.status in ("completed", "retryable"):
        words += f": {row.checkpointed_frames:,} of {row.checkpoint_log_frames:,} frames of the log are in the database"
    if row.status == "retryable" and row.retry_after:
        words += f"; the next try is at {row.retry_after:%H:%M:%S} UTC"
    return f"{words}."
