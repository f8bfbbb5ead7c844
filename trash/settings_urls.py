from django.urls import path

from trash import settings_views as views

app_name = "settings"
urlpatterns = [
    path("", views.show, name="show"),
]
