import pytest

from jobs.errors import LeaseLost
from jobs.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


def test_claim_takes_the_oldest_pending_job():
    first = factories.pending_job("thumbnail")
    factories.pending_job("thumbnail")
    lease = Job.objects.claim("w")
    assert lease is not None
    assert lease.row.pk == first.pk
    assert lease.row.status == "running"


def test_finish_from_an_old_claim_changes_nothing():
    job, old = factories.running_job()
    factories.expire(job)
    assert Job.objects.recover() == 1
    with pytest.raises(LeaseLost):
        old.finish("completed")
    job.refresh_from_db()
    assert (job.status, job.error_code) == ("retryable", "LEASE_EXPIRED")
