from django.urls import path

from dedupfs_site import first_steps_views as views

app_name = "first_steps"
urlpatterns = [
    path("", views.show, name="show"),
    path("begin/", views.begin, name="begin"),
    path("add/", views.add, name="add"),
    path("scan/<int:library_id>/", views.scan, name="scan"),
    path("demo/remove/", views.remove_demo, name="remove_demo"),
    path("demo/bring/", views.bring_demo, name="bring_demo"),
]
