"""What the tables of this room need in the database beside their columns: triggers that note which digests have to be
counted anew, whoever wrote the files, and triggers that keep the last file of a group."""

from __future__ import annotations

from database.objects import DatabaseObject
from database.transitions import guards
from duplicates.models import FolderSearch, Plan
from logbook.recording import Watched, recorders

#: What a group is counted from.
_COUNTED = (
    "id", "library_id", "relative_path", "size_bytes", "mtime_ns", "inode", "device", "nlink", "is_missing",
    "needs_hash", "hash_algorithm", "content_hash",
)  # fmt: skip
_NOTE = "INSERT INTO duplicate_changes (file_id, hash_algorithm, content_hash)"
_RECOUNT = (
    "UPDATE duplicate_summary SET is_stale = {true}, counted_file_id = 0,"
    " recounted_algorithm = '', recounted_hash = NULL"
)


def _sqlite() -> dict[str, tuple[str, str]]:
    """Files above `counted_file_id` are looked at in any case, so nothing needs to be noted of a digest they get. One
    that they had is noted: a group that was counted for another of its files has them in already."""
    counted = "(SELECT counted_file_id FROM duplicate_summary WHERE id = 1)"
    differs = " OR ".join(f"OLD.{column} IS NOT NEW.{column}" for column in _COUNTED)
    return {
        "duplicates_note_insert": (
            "library_files",
            f"""CREATE TRIGGER duplicates_note_insert AFTER INSERT ON library_files
WHEN NEW.content_hash IS NOT NULL AND NEW.id <= {counted} BEGIN
  {_NOTE} VALUES (NEW.id, NEW.hash_algorithm, NEW.content_hash);
END""",
        ),
        "duplicates_note_update": (
            "library_files",
            f"""CREATE TRIGGER duplicates_note_update
AFTER UPDATE OF {", ".join(_COUNTED)} ON library_files
WHEN ({differs}) AND (OLD.content_hash IS NOT NULL OR (NEW.content_hash IS NOT NULL AND NEW.id <= {counted})) BEGIN
  {_NOTE} VALUES (NEW.id, OLD.hash_algorithm, OLD.content_hash);
END""",
        ),
        "duplicates_note_delete": (
            "library_files",
            f"""CREATE TRIGGER duplicates_note_delete AFTER DELETE ON library_files
WHEN OLD.content_hash IS NOT NULL BEGIN
  {_NOTE} VALUES (OLD.id, OLD.hash_algorithm, OLD.content_hash);
END""",
        ),
        "duplicates_note_role": (
            "library_roots",
            f"""CREATE TRIGGER duplicates_note_role
AFTER UPDATE OF role, protected_folders ON library_roots
WHEN OLD.role IS NOT NEW.role OR OLD.protected_folders IS NOT NEW.protected_folders BEGIN
  {_RECOUNT.format(true="1")};
END""",
        ),
        "duplicates_note_algorithm": (
            "hash_states",
            f"""CREATE TRIGGER duplicates_note_algorithm
AFTER UPDATE OF algorithm ON hash_states WHEN OLD.algorithm IS NOT NEW.algorithm BEGIN
  {_RECOUNT.format(true="1")};
END""",
        ),
    }


def _function(name: str, body: str, table: str, when: str) -> list[DatabaseObject]:
    function = f"""CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
BEGIN
  {body}
  RETURN NULL;
END $body$"""
    trigger = f"CREATE TRIGGER {name}_trigger {when} EXECUTE FUNCTION {name}()"
    return [
        DatabaseObject("postgresql", "FUNCTION", name, function),
        DatabaseObject("postgresql", "TRIGGER", f"{name}_trigger", trigger, table, _RECOUNT.format(true="true")),
    ]


def _postgresql() -> list[DatabaseObject]:
    """Ids don't grow in the order of commits there, so every row is noted; many inserted at once cost one statement."""
    differs = " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in _COUNTED)
    noted = (
        f"{_NOTE} SELECT MIN(id), hash_algorithm, content_hash FROM seen WHERE content_hash IS NOT NULL GROUP BY 2, 3"
    )
    return [
        *_function(
            "duplicates_note_insert",
            f"{noted};",
            "library_files",
            "AFTER INSERT ON library_files REFERENCING NEW TABLE AS seen FOR EACH STATEMENT",
        ),
        *_function(
            "duplicates_note_delete",
            f"{noted};",
            "library_files",
            "AFTER DELETE ON library_files REFERENCING OLD TABLE AS seen FOR EACH STATEMENT",
        ),
        *_function(
            "duplicates_note_update",
            f"{_NOTE} VALUES (NEW.id, OLD.hash_algorithm, OLD.content_hash);",
            "library_files",
            f"AFTER UPDATE OF {', '.join(_COUNTED)} ON library_files FOR EACH ROW"
            f" WHEN (({differs}) AND (OLD.content_hash IS NOT NULL OR NEW.content_hash IS NOT NULL))",
        ),
        *_function(
            "duplicates_note_role",
            f"{_RECOUNT.format(true='true')};",
            "library_roots",
            "AFTER UPDATE OF role, protected_folders ON library_roots FOR EACH ROW"
            " WHEN ((OLD.role, OLD.protected_folders) IS DISTINCT FROM (NEW.role, NEW.protected_folders))",
        ),
        *_function(
            "duplicates_note_algorithm",
            f"{_RECOUNT.format(true='true')};",
            "hash_states",
            "AFTER UPDATE OF algorithm ON hash_states FOR EACH ROW WHEN (OLD.algorithm IS DISTINCT FROM NEW.algorithm)",
        ),
    ]


# --- Plans ------------------------------------------------------------------------------------------------
#: A file that goes has a keeper in the same plan, of the same content, that stays.
_KEEPER_STAYS = """NEW.role = 'remove' AND NOT EXISTS (
  SELECT 1 FROM plan_files keeper WHERE keeper.id = NEW.keeper_id AND keeper.role = 'keep'
     AND keeper.plan_id = NEW.plan_id AND keeper.hash_algorithm = NEW.hash_algorithm
     AND keeper.content_hash = NEW.content_hash)"""
#: A file that others go for can't go itself, nor change its content or plan.
_IS_NEEDED = """OLD.role = 'keep' AND EXISTS (SELECT 1 FROM plan_files victim WHERE victim.keeper_id = OLD.id)
 AND (NEW.role <> 'keep' OR NEW.plan_id <> OLD.plan_id OR NEW.hash_algorithm <> OLD.hash_algorithm
      OR NEW.content_hash <> OLD.content_hash)"""
_NO_KEEPER = "a file that goes needs one that stays, of the same content in the same plan"
_NEEDED = "others go because this file stays"


def _plan_guards() -> list[DatabaseObject]:
    columns = "role, plan_id, keeper_id, hash_algorithm, content_hash"
    objects = []
    for event, name in (("INSERT", "plan_files_keep_one_insert"), (f"UPDATE OF {columns}", "plan_files_keep_one")):
        sql = f"""CREATE TRIGGER {name} BEFORE {event} ON plan_files
WHEN {_KEEPER_STAYS} BEGIN
  SELECT RAISE(ABORT, '{_NO_KEEPER}');
END"""
        objects.append(DatabaseObject("sqlite", "TRIGGER", name, sql, "plan_files"))
    needed = f"""CREATE TRIGGER plan_files_needed BEFORE UPDATE OF {columns} ON plan_files
WHEN {_IS_NEEDED} BEGIN
  SELECT RAISE(ABORT, '{_NEEDED}');
END"""
    objects.append(DatabaseObject("sqlite", "TRIGGER", "plan_files_needed", needed, "plan_files"))
    function = f"""CREATE OR REPLACE FUNCTION plan_files_keep_one() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
BEGIN
  -- Whoever makes the keeper go at this moment is waited for.
  IF NEW.role = 'remove' THEN PERFORM 1 FROM plan_files WHERE id = NEW.keeper_id FOR SHARE; END IF;
  IF {_KEEPER_STAYS} THEN RAISE EXCEPTION '{_NO_KEEPER}' USING ERRCODE = 'check_violation'; END IF;
  IF TG_OP = 'UPDATE' THEN
    IF {_IS_NEEDED} THEN RAISE EXCEPTION '{_NEEDED}' USING ERRCODE = 'check_violation'; END IF;
  END IF;
  RETURN NEW;
END $body$"""
    trigger = (
        f"CREATE TRIGGER plan_files_keep_one_trigger BEFORE INSERT OR UPDATE OF {columns} ON plan_files"
        " FOR EACH ROW EXECUTE FUNCTION plan_files_keep_one()"
    )
    objects.append(DatabaseObject("postgresql", "FUNCTION", "plan_files_keep_one", function))
    objects.append(DatabaseObject("postgresql", "TRIGGER", "plan_files_keep_one_trigger", trigger, "plan_files"))
    return objects


OBJECTS = [
    *(
        DatabaseObject(
            "sqlite",
            "TRIGGER",
            name,
            sql,
            table,
            then=_RECOUNT.format(true="1"),
            is_idle=name == "duplicates_note_insert",
        )
        for name, (table, sql) in _sqlite().items()
    ),
    *_postgresql(),
    *_plan_guards(),
    *guards("plans", Plan.MOVES),
    *recorders(Watched("plans", "'plan ' || NEW.id", has_worker=False, error_code=None, error_message=None)),
    *guards("folder_searches", FolderSearch.MOVES),
    *recorders(Watched("folder_searches", "'search for folders that share content'")),
]
