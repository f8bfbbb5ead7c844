from django.urls import path

from duplicates import rule_views as views

app_name = "rules"
urlpatterns = [
    path("", views.rule_list, name="list"),
    path("add/", views.add, name="add"),
    path("<int:rule_set_id>/", views.edit, name="edit"),
    path("<int:rule_set_id>/remove/", views.remove, name="remove"),
]
