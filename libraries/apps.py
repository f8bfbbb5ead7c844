from django.apps import AppConfig


class LibrariesConfig(AppConfig):
    name = "libraries"

    def ready(self) -> None:
        from database.objects import register
        from libraries.objects import OBJECTS

        register(*OBJECTS)
