from django.urls import path

from logbook import views

app_name = "logbook"
urlpatterns = [path("", views.event_list, name="list")]
