"""`manage.py act PLAN`: carry out a plan that an admin has authorised, in this process."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError, CommandParser

from accounts.command_line import actor
from database.prepared_command import PreparedCommand
from jobs import stopping
from jobs.errors import Refused, Stopping
from jobs.working import in_hand
from libraries.errors import NotThere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trash.models import Act

#: Exit codes, beside 0 (all of it is done, or was before) and 1 (it failed).
NOT_AUTHORISED, SOMEBODY_ELSE, PARTLY_SKIPPED, STOPPED = 3, 4, 5, 6
TOLD_SECONDS = 1.0


class Command(PreparedCommand):
    help = (
        "Carry out a plan that an admin has authorised in the browser, in this process; it needs no consumer. What is "
        "left of the time to stop it is waited out. It can't authorise a plan. What an earlier run left half done is "
        "settled first. Exit codes: 0 everything is done, 1 it failed, 3 not authorised, 4 somebody else is at it, "
        "5 some files were skipped, 6 paused or stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("plan", type=int, metavar="PLAN", help="The number of the plan")
        parser.add_argument("--json", action="store_true", help="One JSON object instead of words")

    def handle(self, *_args: Any, plan: int, **options: Any) -> None:
        from trash import acting_here

        stopping.listen()
        try:
            act = acting_here.act_of(plan)
            if act is None:
                raise acting_here.NotAuthorised(f"Plan {plan} is not authorised: an admin does that in the browser.")
            was_living = act.is_living
            with _telling(self):
                act = acting_here.act_here(act, actor=actor(), wait=self._wait)
        except NotThere as error:
            raise CommandError(str(error)) from None
        except acting_here.NotAuthorised as error:
            raise CommandError(str(error), returncode=NOT_AUTHORISED) from None
        except acting_here.SomebodyElse as error:
            raise CommandError(str(error), returncode=SOMEBODY_ELSE) from None
        except (acting_here.Paused, Stopping, KeyboardInterrupt) as error:
            words = str(error) or "Stopped. What was done is on record; the next run goes on from there."
            raise CommandError(words, returncode=STOPPED) from None
        except Refused as error:
            raise CommandError(str(error)) from None
        self._tell(act, is_json=options["json"], was_living=was_living)

    def _wait(self, seconds: float) -> None:
        if sys.stderr.isatty():
            self.stderr.write(f"\rIt begins in {seconds:.0f} s; until then it can be stopped. ", ending="")

    def _tell(self, act: Act, *, is_json: bool, was_living: bool) -> None:
        if is_json:
            self.stdout.write(json.dumps(_described(act), ensure_ascii=True))
        elif not was_living:
            self.stdout.write(f"Nothing to do: plan {act.plan_id} is {act.plan and act.plan.status} (act {act.pk}).")
        else:
            self.stdout.write(_words(act))
        if act.is_living:
            why = act.job.error_message if act.job and act.job.error_message else "it goes on with the next run"
            code = SOMEBODY_ELSE if act.job and act.job.error_code == "ACT_LOCKED" else STOPPED
            raise CommandError(f"Plan {act.plan_id} is not done: {why}", returncode=code)
        if act.status == "void" or (act.status == "cancelled" and not act.done_count):
            raise CommandError(f"Plan {act.plan_id} is not authorised: {act.note or 'it was stopped'}", returncode=3)
        if act.status != "completed":
            raise CommandError(f"Plan {act.plan_id}: {act.status}. {act.note}".strip())
        if act.skipped_count:
            raise CommandError(
                f"{act.skipped_count:,} files were skipped; each with its reason in the proof and on the plan's page.",
                returncode=PARTLY_SKIPPED,
            )


@contextmanager
def _telling(command: Command) -> Iterator[None]:
    """How far it is, once a second, for whoever watches."""
    done = Event()

    def tell() -> None:
        while not done.wait(TOLD_SECONDS):
            for work in in_hand():
                if work.total:
                    command.stderr.write(f"\r{work.processed or 0:,} of {work.total:,} files ", ending="")

    thread = Thread(target=tell, daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.is_alive():
            thread.join()


def _words(act: Act) -> str:
    from frame.templatetags.human import size_words

    said = {"trash": "moved to the trash", "hardlink": "replaced by hard links", "delete": "removed for good"}
    done = said.get(act.plan.action if act.plan else "", "acted on")
    proof = f" Proof: {act.proof_name} (SHA-256 {act.proof_sha256})." if act.proof_name else ""
    return (
        f"Plan {act.plan_id}: {act.done_count:,} of {act.file_count:,} files {done}, {act.skipped_count:,} skipped;"
        f" {size_words(act.bytes_done)} looked at.{proof}"
    )


def _described(act: Act) -> dict[str, Any]:
    return {
        "plan": act.plan_id,
        "act": act.pk,
        "status": act.status,
        "plan_status": act.plan.status if act.plan else None,
        "authorised_by": act.authorised_by,
        "files": act.file_count,
        "done": act.done_count,
        "skipped": act.skipped_count,
        "bytes": act.bytes_done,
        "note": act.note,
        "proof": act.proof_name,
        "proof_sha256": act.proof_sha256,
    }
