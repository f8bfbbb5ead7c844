from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class SiteConfig(AppConfig):
    name = "dedupfs_site"
    verbose_name = gettext_lazy("Site")

    def ready(self) -> None:
        from dedupfs_site import daily_samples
        from jobs.living import register_chore

        register_chore("take the day's figures", lambda: daily_samples.EVERY_SECONDS, daily_samples.note_today)
