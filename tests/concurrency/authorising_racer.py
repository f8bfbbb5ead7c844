"""One of several admins who authorise plans at the same moment; prints what came of each."""

from __future__ import annotations

import sys
from pathlib import Path

import django

django.setup()

from duplicates.models import Plan  # noqa: E402
from libraries.errors import Refused  # noqa: E402
from tests.concurrency.gate import wait_for  # noqa: E402
from trash import authorising  # noqa: E402

if __name__ == "__main__":
    who, gate, plan_id = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    plan = Plan.objects.get(pk=plan_id)  # connected before the race starts
    wait_for(gate)
    try:
        print("authorised", authorising.authorise(plan.pk, plan.remove_count, actor=who).pk, flush=True)
    except Refused as refusal:
        print("refused", refusal, flush=True)
