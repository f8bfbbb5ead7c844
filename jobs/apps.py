from importlib import import_module

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from database.objects import register, register_grants
        from jobs.enforcing import deletion_guards, grant_whitelist, guard_new_connection
        from jobs.objects import OBJECTS

        register(*OBJECTS, *deletion_guards())
        register_grants(grant_whitelist)
        import_module("jobs.handlers")
        connection_created.connect(guard_new_connection, dispatch_uid="jobs.enforcing")
