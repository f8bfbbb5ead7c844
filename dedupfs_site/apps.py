from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "dedupfs_site"

    def ready(self) -> None:
        from dedupfs_site import daily_samples
        from jobs.living import register_chore

        register_chore("take the day's figures", lambda: daily_samples.EVERY_SECONDS, daily_samples.note_today)
