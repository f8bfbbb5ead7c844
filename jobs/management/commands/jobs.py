"""`manage.py jobs`: look at background jobs and decide about them from a terminal."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from ninja.responses import NinjaJSONEncoder

from accounts.command_line import actor
from jobs import deciding
from jobs.api import LARGEST_PAGE, PAGE_SIZE, JobOut
from jobs.errors import Refused
from jobs.models import Job
from logbook.models import LogbookEvent

LINE = "{:<36}  {:<9}  {:<9}  {:>5}  {:<20}  {}"


def page_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_PAGE:
        raise ArgumentTypeError(f"write a whole number from 1 to {LARGEST_PAGE}")
    return int(text)


class Command(BaseCommand):
    help = "Look at background jobs, cancel them, or put them back in the queue."
    requires_system_checks: list[str] = []  # they load every page, which this needs not

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show|cancel|reset")
        self._add_list(verbs)
        show = verbs.add_parser("show", help="One job with its lease and its history")
        cancel = verbs.add_parser("cancel", help="Cancel a job that has not ended")
        reset = verbs.add_parser("reset", help="Put a retryable job back in the queue")
        for verb in (show, cancel, reset):
            verb.add_argument("id", help="The job's id, as `jobs list` shows it")
        cancel.add_argument("--reason", default="", help="Why; written into the job's history")
        for verb in verbs.choices.values():
            verb.add_argument("--json", action="store_true", dest="as_json", help="Print JSON, as the API does")

    def _add_list(self, verbs: Any) -> None:
        parser = verbs.add_parser("list", help="The newest jobs")
        parser.add_argument("--kind", choices=Job.Kind.values, help="Only jobs of this kind")
        parser.add_argument("--status", choices=Job.Status.values, help="Only jobs in this state")
        parser.add_argument(
            "--limit", type=page_size, default=PAGE_SIZE, help=f"How many, 1 to {LARGEST_PAGE} ({PAGE_SIZE})"
        )

    def handle(self, *_args: Any, verb: str, **options: Any) -> None:
        getattr(self, f"handle_{verb}")(options)

    def handle_list(self, options: dict[str, Any]) -> None:
        chosen = {name: options[name] for name in ("kind", "status") if options[name]}
        jobs = Job.objects.filter(**chosen).order_by("-created_at", "-id")[: options["limit"]]
        if options["as_json"]:
            self._print_json({"items": [as_data(job) for job in jobs]})
            return
        lines = [line_of(job) for job in jobs]
        self.stdout.write(LINE.format("ID", "KIND", "STATUS", "DONE", "CREATED (UTC)", "WORKER OR ERROR"))
        self.stdout.write("\n".join(lines) if lines else "No such jobs.")

    def handle_show(self, options: dict[str, Any]) -> None:
        job = find(options["id"])
        events = list(LogbookEvent.objects.about("jobs", job.pk))
        if options["as_json"]:
            self._print_json({**as_data(job), "history": [event_data(event) for event in events]})
        else:
            self.stdout.write("\n".join([*description_of(job), "", "History:", *history_of(events)]))

    def handle_cancel(self, options: dict[str, Any]) -> None:
        self._decide(options, "cancelled", reason=options["reason"], verb=deciding.cancel)

    def handle_reset(self, options: dict[str, Any]) -> None:
        self._decide(options, "back in the queue", verb=deciding.reset)

    def _decide(self, options: dict[str, Any], done: str, *, verb: Any, **more: Any) -> None:
        job = find(options["id"])
        try:
            job = verb(job.pk, actor=actor(), **more)
        except Refused as refusal:
            raise CommandError(f"Job {job.pk}: {refusal}") from None
        if options["as_json"]:
            self._print_json(as_data(job))
        else:
            self.stdout.write(f"Job {job.pk} is {done}.")

    def _print_json(self, data: Any) -> None:
        self.stdout.write(json.dumps(data, cls=NinjaJSONEncoder))


def find(job_id: str) -> Job:
    try:
        return Job.objects.get(pk=job_id)
    except (Job.DoesNotExist, UnicodeEncodeError):  # an argument may hold bytes that are no text
        raise CommandError(f"There is no job {job_id!r}. `manage.py jobs list` shows those there are.") from None


def as_data(job: Job) -> dict[str, Any]:
    return JobOut.from_orm(job).model_dump()


def event_data(event: LogbookEvent) -> dict[str, Any]:
    names = ("event_type", "status_from", "status_to", "worker_id", "error_code", "actor", "created_at")
    return {**{name: getattr(event, name) for name in names}, "payload": event.payload_json}


def plain(text: str) -> str:
    """Names of files and workers may hold anything; a terminal must not obey it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def when(time: datetime | None) -> str:
    return "–" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"  # noqa: RUF001


def line_of(job: Job) -> str:
    told = job.worker_id if job.status == Job.Status.RUNNING else job.error_code
    return LINE.format(
        job.pk, job.kind, job.status, f"{job.progress:.0%}", when(job.created_at), plain(told or "")
    ).rstrip()


def description_of(job: Job) -> Iterable[str]:
    total = "?" if job.total_items is None else job.total_items
    yield f"Job {job.pk}"
    yield f"  kind      {job.kind}{' (dry run)' if job.dry_run else ''}"
    yield f"  status    {job.status}"
    yield f"  progress  {job.progress:.0%}, {job.processed_items} of {total} items"
    yield f"  attempts  {job.attempts}"
    yield f"  created   {when(job.created_at)} UTC"
    yield f"  started   {when(job.started_at)}"
    yield f"  ended     {when(job.finished_at)}"
    if job.worker_id and job.status == Job.Status.RUNNING:
        yield f"  lease     held by {plain(job.worker_id)} until {when(job.lease_expires_at)}"
        yield f"            last heartbeat {when(job.worker_heartbeat_at)}"
    else:
        yield "  lease     nobody holds it"
    if job.error_code or job.error_message:
        yield f"  error     {plain(job.error_code or '')} {plain(job.error_message or '')}".rstrip()
    yield f"  payload   {json.dumps(job.payload)}"


def history_of(events: Iterable[LogbookEvent]) -> Iterable[str]:
    for event in events:
        words = [when(event.created_at), event.event_type]
        if event.event_type == "status":
            words.append(f"{event.status_from or 'new'} → {event.status_to or 'gone'}")
        if event.actor:
            words.append(f"by {event.actor}")
        words += [text for text in (event.worker_id, event.error_code) if text]
        words += [f"{key}: {value}" for key, value in event.payload_json.items()]
        yield f"  {plain('  '.join(words))}"
