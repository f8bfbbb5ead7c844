"""One of several processes that claim and finish rows of a table until none is left; prints the key of each."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import django

django.setup()

from django.apps import apps  # noqa: E402


def main(model_name: str, outcome: str, gate: Path) -> None:
    model = apps.get_model(model_name)
    list(model.objects.all()[:1])  # connected before the race starts
    print("ready", flush=True)
    while not gate.exists():
        time.sleep(0.001)
    while True:
        lease = model.objects.claim("racer")
        if lease is not None:
            print(lease.row.pk, flush=True)
            lease.finish(outcome)
        elif not model.objects.filter(status__in=["pending", "running", "retryable"]).exists():
            return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
