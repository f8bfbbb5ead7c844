"""`run_huey`, with a consumer that holds leases and gives them back."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils.module_loading import autodiscover_modules
from huey.consumer_options import ConsumerConfig
from huey.contrib.djhuey import HUEY

from jobs.consuming import LeaseConsumer


class Command(BaseCommand):
    help = "Run a consumer: it claims waiting work, carries it out and gives back what it holds when it is stopped."
    # It serves no page: the checks of urls and templates are the web server's.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "-w", "--workers", type=int, help="How many pieces of work at a time (DEDUPFS_CONSUMER_WORKERS)"
        )

    def handle(self, *args: Any, workers: int | None, **options: Any) -> None:
        chosen = dict(settings.HUEY["consumer"])
        if workers is not None:
            # Rendering leaves one of them to the other queues, so it has to know how many there are.
            chosen["workers"] = settings.CONSUMER_WORKERS = workers
        autodiscover_modules("tasks")
        config = ConsumerConfig(**chosen)
        config.validate()
        LeaseConsumer(HUEY, **config.values).run()
