"""Random sequences of everything that can happen to jobs, by our code and by a foreign writer, against a model."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from jobs import deciding
from jobs.errors import LeaseLost, Refused
from jobs.lease import Lease
from jobs.models import Job
from logbook.models import LogbookEvent, LogbookItem
from tests import factories

pytestmark = pytest.mark.django_db

SLOT = {"scan", "hash"}
TIMES = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%f", "%Y-%m-%d %H:%M:%S.654321"]
kinds = st.sampled_from(["scan", "hash", "thumbnail"])
outcomes = st.sampled_from(["completed", "failed", "retryable"])


class Jobs(RuleBasedStateMachine):
    """The model: for each job its kind, its status and the claim that holds it; oldest first."""

    jobs = Bundle("jobs")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        Job.objects.all().delete()
        LogbookEvent.objects.all().delete()
        LogbookItem.objects.all().delete()
        self.model: dict[str, dict[str, Any]] = {}
        self.trail: dict[str, list[tuple[str | None, str]]] = {}

    def slot_taken(self, but: str = "") -> bool:
        return any(
            job["kind"] in SLOT and job["status"] in ("pending", "running")
            for key, job in self.model.items()
            if key != but
        )

    def moved(self, key: str, to: str, owner: str | None = None) -> None:
        job = self.model[key]
        self.trail[key].append((job["status"], to))
        job.update(status=to, owner=owner, is_expired=False)

    def recovered(self) -> None:
        """Every claim path takes stale rows back first."""
        for key, job in self.model.items():
            if job["status"] == "running" and job["is_expired"]:
                self.moved(key, "retryable")

    @rule(target=jobs, kind=kinds)
    def enqueue(self, kind: str) -> Any:
        if kind in SLOT and self.slot_taken():
            with pytest.raises(Refused):
                deciding.enqueue(kind, actor="vera")
            return ""
        return self.added(deciding.enqueue(kind, actor="vera").pk, kind)

    @rule(target=jobs, kind=kinds, form=st.sampled_from(TIMES))
    def foreign_insert(self, kind: str, form: str) -> Any:
        if kind in SLOT and self.slot_taken():
            return ""
        key = f"foreign-{len(self.model)}"
        now = f"strftime('{form}', 'now')" if connection.vendor == "sqlite" else "now()"
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs (id, kind, created_at) VALUES (%s, %s, " + now.replace("%", "%%") + ")",
                [key, kind],
            )
        return self.added(key, kind)

    def added(self, key: str, kind: str) -> str:
        self.model[key] = {"kind": kind, "status": "pending", "owner": None, "is_expired": False}
        self.trail[key] = [(None, "pending")]
        return key

    @rule(target=leases)
    def claim(self) -> Any:
        lease = Job.objects.claim("machine")
        self.recovered()
        waiting = {key for key, job in self.model.items() if job["status"] == "pending"}
        if lease is None:
            assert not waiting
            return None
        assert lease.row.pk in waiting
        self.moved(lease.row.pk, "running", lease.worker_id)
        return lease

    @rule(target=leases, form=st.sampled_from(TIMES), key=jobs)
    def foreign_claim(self, form: str, key: str) -> Any:
        if not key or self.model[key]["status"] != "pending":
            return None
        later = (
            f"strftime('{form}', 'now', '+300 seconds')" if connection.vendor == "sqlite" else "now() + interval '300s'"
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs SET status = 'running', worker_id = 'rust', lease_expires_at = "
                + later.replace("%", "%%")
                + " WHERE id = %s AND status = 'pending'",
                [key],
            )
        self.moved(key, "running", "rust")
        return Lease.of(Job, key, "rust")

    def holds(self, lease: Lease[Job]) -> bool:
        job = self.model[lease.row.pk]
        return job["status"] == "running" and job["owner"] == lease.worker_id and not job["is_expired"]

    @rule(lease=leases)
    def renew(self, lease: Lease[Job] | None) -> None:
        if lease is None:
            return
        if self.holds(lease):
            lease.renew(1, 2)
        else:
            with pytest.raises(LeaseLost):
                lease.renew(1, 2)

    @rule(lease=leases, outcome=outcomes)
    def finish(self, lease: Lease[Job] | None, outcome: str) -> None:
        if lease is None:
            return
        if self.holds(lease):
            lease.finish(outcome)
            self.moved(lease.row.pk, outcome)
        else:
            with pytest.raises(LeaseLost):
                lease.finish(outcome)

    @rule(lease=consumes(leases))
    def release(self, lease: Lease[Job] | None) -> None:
        if lease is None:
            return
        if self.holds(lease):
            lease.release()
            self.moved(lease.row.pk, "retryable")
        else:
            with pytest.raises(LeaseLost):
                lease.release()

    @rule(lease=leases)
    def write_a_batch(self, lease: Lease[Job] | None) -> None:
        if lease is None:
            return
        if self.holds(lease):
            with lease.fenced("scan"):
                pass
        else:
            with pytest.raises(LeaseLost), lease.fenced("scan"):
                raise AssertionError("a lost claim must not get this far")

    @rule(key=jobs)
    def expire(self, key: str) -> None:
        if key and self.model[key]["status"] == "running":
            factories.expire(Job.objects.get(pk=key))
            self.model[key]["is_expired"] = True

    @rule()
    def recover(self) -> None:
        stale = sum(job["status"] == "running" and job["is_expired"] for job in self.model.values())
        assert Job.objects.recover() == stale
        self.recovered()

    @rule(key=jobs)
    def cancel(self, key: str) -> None:
        if not key:
            return
        if self.model[key]["status"] in ("pending", "running", "retryable"):
            deciding.cancel(key, actor="vera", reason="enough")
            self.moved(key, "cancelled")
        else:
            with pytest.raises(Refused):
                deciding.cancel(key, actor="vera")

    @rule(key=jobs)
    def reset(self, key: str) -> None:
        if not key:
            return
        job = self.model[key]
        if job["status"] == "retryable" and not (job["kind"] in SLOT and self.slot_taken(but=key)):
            deciding.reset(key, actor="vera")
            self.moved(key, "pending")
        else:
            with pytest.raises(Refused):
                deciding.reset(key, actor="vera")

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        assert dict(Job.objects.values_list("pk", "status")) == {key: job["status"] for key, job in self.model.items()}

    @invariant()
    def never_two_owners_and_no_lease_without_running(self) -> None:
        for job in Job.objects.all():
            if job.status == "running":
                assert job.worker_id == self.model[job.pk]["owner"]
            else:
                assert job.lease_expires_at is None

    @invariant()
    def at_most_one_active_scan_or_hash(self) -> None:
        assert Job.objects.holding_slot().count() <= 1

    @invariant()
    def every_transition_has_its_event(self) -> None:
        found: dict[str, list[tuple[str | None, str | None]]] = {key: [] for key in self.model}
        rows = LogbookEvent.objects.filter(event_type="status").order_by("id")
        for key, was, now in rows.values_list("item__subject_id", "status_from", "status_to"):
            found[key].append((was, now))
        assert found == self.trail

    def teardown(self) -> None:
        connections.close_all()


def test_jobs_keep_to_the_protocol_whatever_happens() -> None:
    run_state_machine_as_test(Jobs, settings=settings(stateful_step_count=30))
