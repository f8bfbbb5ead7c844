from django.apps import AppConfig


class ThumbnailsConfig(AppConfig):
    name = "thumbnails"

    def ready(self) -> None:
        from django.conf import settings

        from database.objects import register
        from jobs.executing import with_each_sweep
        from jobs.living import register_chore
        from thumbnails import cleaning, evicting, rendering, tidying
        from thumbnails.objects import OBJECTS
        from thumbnails.render_counting import RENDERS

        register(*OBJECTS, *RENDERS.objects)
        rendering.register()
        cleaning.register()
        with_each_sweep(tidying.tidy)
        register_chore("keep thumbnails small", lambda: settings.SWEEP_SECONDS, evicting.keep_small)
