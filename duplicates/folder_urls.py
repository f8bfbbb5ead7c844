from django.urls import path

from duplicates import folder_views as views

app_name = "folders"
urlpatterns = [
    path("", views.folder_list, name="list"),
    path("search/", views.search, name="search"),
    path("<int:pair_id>/", views.pair, name="pair"),
    path("<int:pair_id>/plan/", views.plan, name="plan"),
]
