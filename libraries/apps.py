from importlib import import_module

from django.apps import AppConfig


class LibrariesConfig(AppConfig):
    name = "libraries"

    def ready(self) -> None:
        from database.objects import register
        from jobs.deciding import fills_slot
        from jobs.executing import with_each_sweep
        from jobs.handlers import handles
        from libraries import queueing, scheduling
        from libraries.hashing import hash_files
        from libraries.objects import OBJECTS
        from libraries.scanning import scan

        register(*OBJECTS)
        import_module("libraries.examining")
        _register_chores()
        fills_slot(queueing.promote)
        with_each_sweep(scheduling.tick)
        with_each_sweep(queueing.prune)
        handles("scan", scan)
        handles("hash", hash_files)


def _register_chores() -> None:
    """What every consumer does beside its queues."""
    from django.conf import settings

    from jobs.living import register_chore
    from libraries import hash_helping, removing, watching

    register_chore("look at libraries", lambda: settings.LOOK_SECONDS, watching.look_at_all)
    register_chore("remove libraries", lambda: settings.SWEEP_SECONDS, removing.carry_on)
    register_chore("help to hash", lambda: settings.SWEEP_SECONDS, hash_helping.help_if_needed)
    register_chore("close sessions", lambda: settings.SWEEP_SECONDS, watching.close_orphaned_sessions)
