from django.urls import path

from thumbnails import views

app_name = "thumbs"
urlpatterns = [
    path("ask/", views.ask, name="ask"),
    path("of/<int:file_id>/", views.of_file, name="of_file"),
    path("original/<int:file_id>/", views.original, name="original"),
    path("<str:thumb_key>/", views.content, name="content"),
]
