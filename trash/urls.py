from django.urls import path

from trash import change_views as changes
from trash import views

app_name = "trash"
urlpatterns = [
    path("", views.trash_list, name="list"),
    path("live/", views.live, name="live"),
    path("history/", views.history, name="history"),
    path("undo/", changes.undo, name="undo"),
    path("empty/", changes.empty, name="empty"),
]
