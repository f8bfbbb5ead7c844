from django.urls import path

from libraries import picker_views, queue_views, views

app_name = "libraries"
urlpatterns = [
    path("", views.library_list, name="list"),
    path("add/", views.add, name="add"),
    path("add/picked/", picker_views.add_picked, name="add_picked"),
    path("pick/", picker_views.pick, name="pick"),
    path("scan/", views.scan_all, name="scan_all"),
    path("schedule/", views.schedule, name="schedule"),
    path("<int:library_id>/", views.detail, name="detail"),
    path("<int:library_id>/settings/", views.settings_of, name="settings"),
    path("<int:library_id>/scan/", views.scan, name="scan"),
    path("<int:library_id>/pause/", views.pause, name="pause"),
    path("<int:library_id>/resume/", views.resume, name="resume"),
    path("<int:library_id>/remove/", views.remove, name="remove"),
    path("<int:library_id>/errors/", views.errors, name="errors"),
    path("<int:library_id>/failures/", views.failures, name="failures"),
]

#: The scan queue has an address of its own: it is about all libraries.
queue_patterns = (
    [
        path("", queue_views.queue, name="show"),
        path("history/", queue_views.history, name="history"),
        path("hash/pause/", queue_views.pause_hash, name="pause_hash"),
        path("hash/resume/", queue_views.resume_hash, name="resume_hash"),
        path("<str:request_id>/cancel/", queue_views.cancel, name="cancel"),
    ],
    "queue",
)
