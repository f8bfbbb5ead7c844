from importlib import import_module

from django.apps import AppConfig
from django.db.backends.signals import connection_created


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from database.objects import register, register_grants
        from jobs.enforcing import deletion_guards, grant_whitelist, guard_new_connection
        from jobs.objects import OBJECTS
        from jobs.recovery_counting import RECOVERIES

        register(*OBJECTS, *RECOVERIES.objects, *deletion_guards())
        register_grants(grant_whitelist)
        import_module("jobs.handlers")
        _look_after_the_wal()
        connection_created.connect(guard_new_connection, dispatch_uid="jobs.enforcing")


def _look_after_the_wal() -> None:
    from jobs import checkpointing, wal_watching
    from jobs.living import register_chore

    checkpointing.register()
    register_chore("look at the write-ahead log", lambda: wal_watching.EVERY_SECONDS, wal_watching.look)
