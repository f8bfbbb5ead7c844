from django.apps import AppConfig


class ThumbnailsConfig(AppConfig):
    name = "thumbnails"

    def ready(self) -> None:
        from database.objects import register
        from thumbnails.objects import OBJECTS

        register(*OBJECTS)
