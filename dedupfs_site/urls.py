"""Every address of the product."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from dedupfs_site.api import api
from dedupfs_site.metrics import metrics
from jobs.health import health
from libraries.urls import queue_patterns

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="jobs:list"), name="home"),
    path("health", health, name="health"),
    path("metrics", metrics, name="metrics"),
    path("account/", include("accounts.urls")),
    path("jobs/", include("jobs.urls")),
    path("duplicates/folders/", include("duplicates.folder_urls")),
    path("duplicates/", include("duplicates.group_urls")),
    path("rules/", include("duplicates.rule_urls")),
    path("plans/", include("duplicates.plan_urls")),
    path("libraries/", include("libraries.urls")),
    path("queue/", include(queue_patterns)),
    path("thumbs/", include("thumbnails.urls")),
    path("maintenance/", include("dedupfs_site.maintenance_urls")),
    path("logbook/", include("logbook.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
]
handler400 = "frame.refusals.bad_request"
