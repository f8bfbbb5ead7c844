from django.urls import path

from dedupfs_site import maintenance_views as views

app_name = "maintenance"
urlpatterns = [
    path("", views.show, name="show"),
    path("checkpoint/", views.ask_for_checkpoint, name="checkpoint"),
]
