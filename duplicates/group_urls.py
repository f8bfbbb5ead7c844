from django.urls import path

from duplicates import group_views as views

app_name = "duplicates"
urlpatterns = [
    path("", views.group_list, name="list"),
    path("totals/", views.totals, name="totals"),
    path("ignore/", views.ignore, name="ignore"),
    path("ignore/matching/", views.ignore_matching, name="ignore-matching"),
    path("ignore/undo/", views.undo_ignoring, name="undo-ignoring"),
    path("export/<str:form>/", views.export, name="export"),
    path("<str:group_key>/", views.group, name="group"),
    path("<str:group_key>/preview/", views.preview, name="preview"),
]
