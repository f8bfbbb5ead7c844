from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DatabaseConfig(AppConfig):
    name = "database"

    def ready(self) -> None:
        from database.objects import install_after_migrate

        post_migrate.connect(install_after_migrate, sender=self, dispatch_uid="database.objects")
