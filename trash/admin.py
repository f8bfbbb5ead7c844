"""Acts and what became of their files in Django's admin; looked at, never written here."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from database.admin_readonly import NOTHING, ReadOnlyAdmin, history_url, link, link_to, list_url
from trash.models import Act, RemovedFolder, Switches, TrashItem


@admin.register(Act)
class ActAdmin(ReadOnlyAdmin[Act]):
    list_display = (
        "id", "verb", "status", "its_plan", "authorised_by", "authorised_at", "is_paused", "file_count", "done_count",
        "skipped_count", "trashed_count", "its_job",
    )  # fmt: skip
    list_filter = ("verb", "status", "is_paused")
    list_select_related = ("plan", "job")
    search_fields = ("key", "authorised_by", "=plan__id", "=job__id")
    search_help_text = gettext_lazy("Its key, who authorised it, the number of its plan, or its job")
    ordering = ("-id",)
    links = ("files", "folders", "history")

    @admin.display(description=gettext_lazy("plan"), empty_value=NOTHING)
    def its_plan(self, act: Act) -> SafeString | str | None:
        return None if act.plan is None else link_to(act.plan)

    @admin.display(description=gettext_lazy("job"), empty_value=NOTHING)
    def its_job(self, act: Act) -> SafeString | str | None:
        return None if act.job is None else link_to(act.job)

    @admin.display(description=gettext_lazy("files"))
    def files(self, act: Act) -> SafeString:
        return link(list_url("trash", "trashitem", act__id__exact=act.pk), _("Its files"))

    @admin.display(description=gettext_lazy("folders"))
    def folders(self, act: Act) -> SafeString:
        return link(list_url("trash", "removedfolder", act__id__exact=act.pk), _("Folders that went with it"))

    @admin.display(description=gettext_lazy("history"))
    def history(self, act: Act) -> SafeString:
        return link(history_url("acts", act.pk), _("What happened to it"))


class BelowAct:
    """Rows that name libraries, which may be gone: their keys are shown, nothing is looked up."""

    @admin.display(description=gettext_lazy("act"))
    def its_act(self, row: TrashItem | RemovedFolder) -> SafeString | str:
        return link_to(row.act)

    @admin.display(description=gettext_lazy("library"))
    def library_key(self, row: TrashItem | RemovedFolder) -> int:
        return row.library_id


@admin.register(TrashItem)
class TrashItemAdmin(BelowAct, ReadOnlyAdmin[TrashItem]):
    list_display = ("id", "its_act", "status", "reason_code", "library_key", "path", "acted_at", "left_at")
    list_filter = ("status", "is_last_copy")
    list_select_related = ("act", "plan_file")
    search_fields = ("plan_file__relative_path", "=reason_code", "=act__key")
    search_help_text = gettext_lazy("Part of its path, a reason code, or its act's key")
    ordering = ("-id",)
    shown_as = {
        "library": "library_key", "act": "its_act", "plan_file": "its_file", "left_by": "its_taker",
        "path_key": "path_digest",
    }  # fmt: skip
    links = ("path",)

    @admin.display(description=gettext_lazy("path"))
    def path(self, item: TrashItem) -> str:
        return item.plan_file.relative_path

    @admin.display(description=gettext_lazy("file of the plan"))
    def its_file(self, item: TrashItem) -> SafeString | str:
        return link_to(item.plan_file)

    @admin.display(description=gettext_lazy("taken out by"), empty_value=NOTHING)
    def its_taker(self, item: TrashItem) -> SafeString | str | None:
        return None if item.left_by is None else link_to(item.left_by)

    @admin.display(description=gettext_lazy("path key"))
    def path_digest(self, item: TrashItem) -> str:
        return bytes(item.path_key).hex()


@admin.register(RemovedFolder)
class RemovedFolderAdmin(BelowAct, ReadOnlyAdmin[RemovedFolder]):
    list_display = ("id", "its_act", "library_key", "folder", "is_back")
    list_filter = ("is_back",)
    list_select_related = ("act",)
    search_fields = ("folder", "=act__key")
    ordering = ("-id",)
    shown_as = {"library": "library_key", "act": "its_act"}


@admin.register(Switches)
class SwitchesAdmin(ReadOnlyAdmin[Switches]):
    list_display = ("id", "is_acting_allowed", "is_removing_allowed", "empty_after_days", "updated_by", "updated_at")
    links = ("history",)

    @admin.display(description=gettext_lazy("history"))
    def history(self, switches: Switches) -> SafeString:
        return link(history_url("switches", switches.pk), _("Who changed it"))
