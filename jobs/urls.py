from django.urls import path

from jobs import views

app_name = "jobs"
urlpatterns = [
    path("", views.job_list, name="list"),
    path("live/", views.live, name="live"),
    path("workers/", views.workers, name="workers"),
    path("<str:job_id>/", views.detail, name="detail"),
    path("<str:job_id>/cancel/", views.cancel, name="cancel"),
    path("<str:job_id>/reset/", views.reset, name="reset"),
    path("<str:job_id>/retry/", views.retry, name="retry"),
]
