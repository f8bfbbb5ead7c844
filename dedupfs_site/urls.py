"""Every address of the product."""

from django.contrib import admin
from django.urls import include, path

from dedupfs_site.api import api
from dedupfs_site.favicon import favicon
from dedupfs_site.metrics import metrics
from dedupfs_site.now_views import now
from dedupfs_site.overview_views import overview
from jobs.health import health
from libraries.urls import queue_patterns

urlpatterns = [
    path("", overview, name="home"),
    path("favicon.ico", favicon, name="favicon"),
    path("health", health, name="health"),
    path("metrics", metrics, name="metrics"),
    path("now/", now, name="now"),
    path("account/", include("accounts.urls")),
    path("first-steps/", include("dedupfs_site.first_steps_urls")),
    path("jobs/", include("jobs.urls")),
    path("duplicates/folders/", include("duplicates.folder_urls")),
    path("duplicates/", include("duplicates.group_urls")),
    path("rules/", include("duplicates.rule_urls")),
    path("plans/", include("duplicates.plan_urls")),
    path("acts/", include("trash.act_urls")),
    path("trash/", include("trash.urls")),
    path("settings/", include("trash.settings_urls")),
    path("libraries/", include("libraries.urls")),
    path("queue/", include(queue_patterns)),
    path("thumbs/", include("thumbnails.urls")),
    path("maintenance/", include("dedupfs_site.maintenance_urls")),
    path("logbook/", include("logbook.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
]
handler400 = "frame.refusals.bad_request"
