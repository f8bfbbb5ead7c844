from django.apps import AppConfig


class DuplicatesConfig(AppConfig):
    name = "duplicates"
