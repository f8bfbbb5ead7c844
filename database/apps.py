from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class DatabaseConfig(AppConfig):
    name = "database"

    def ready(self) -> None:
        from database.objects import install_after_migrate, make_room_before_migrate

        pre_migrate.connect(make_room_before_migrate, sender=self, dispatch_uid="database.objects")
        post_migrate.connect(install_after_migrate, sender=self, dispatch_uid="database.objects")
