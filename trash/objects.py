"""What the tables of this room need in the database beside their columns: triggers that let no two acts over the same
files live at once, and that keep a plan as it was when it was authorised."""

from __future__ import annotations

from database.objects import DatabaseObject
from database.transitions import guards
from logbook.recording import Watched, recorders
from trash.models import Act, TrashItem

_LIVING = ", ".join(repr(status.value) for status in Act.LIVING)
#: A file that goes in one of them is in the other, whether it goes there too or others go because it stays.
_CLASH = f"""NEW.verb = 'act' AND NEW.status IN ({_LIVING}) AND EXISTS (
  SELECT 1 FROM acts other JOIN plan_files theirs ON theirs.plan_id = other.plan_id
    JOIN plan_files mine ON mine.plan_id = NEW.plan_id AND mine.file_id = theirs.file_id
   WHERE other.verb = 'act' AND other.status IN ({_LIVING}) AND other.id <> NEW.id
     AND NOT mine.is_out AND NOT theirs.is_out AND (mine.role = 'remove' OR theirs.role = 'remove'))"""
CLASH = "another authorised plan has a file of this one"
#: On PostgreSQL whoever authorises has this until the end of the transaction.
LOCK = "SELECT pg_advisory_xact_lock(hashtext('authorise'))"
_FROZEN = "EXISTS (SELECT 1 FROM plans WHERE id = {row}.plan_id AND status IN ('authorised', 'done'))"
FROZEN = "an authorised plan is carried out exactly as it is"


def _clash() -> list[DatabaseObject]:
    function = f"""CREATE OR REPLACE FUNCTION acts_never_clash() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
BEGIN
  -- Whoever authorises at this moment is waited for; what they wrote is seen by the next statement.
  {LOCK.replace("SELECT", "PERFORM")};
  IF {_CLASH} THEN RAISE EXCEPTION '{CLASH}' USING ERRCODE = 'check_violation'; END IF;
  RETURN NEW;
END $body$"""
    trigger = (
        "CREATE TRIGGER acts_never_clash_trigger BEFORE INSERT ON acts FOR EACH ROW EXECUTE FUNCTION acts_never_clash()"
    )
    sqlite = f"""CREATE TRIGGER acts_never_clash AFTER INSERT ON acts WHEN {_CLASH} BEGIN
  SELECT RAISE(ABORT, '{CLASH}');
END"""
    return [
        DatabaseObject("sqlite", "TRIGGER", "acts_never_clash", sqlite, "acts"),
        DatabaseObject("postgresql", "FUNCTION", "acts_never_clash", function),
        DatabaseObject("postgresql", "TRIGGER", "acts_never_clash_trigger", trigger, "acts"),
    ]


def _frozen() -> list[DatabaseObject]:
    objects = []
    for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD")):
        name = f"plan_files_frozen_{event.lower()}"
        sql = f"""CREATE TRIGGER {name} BEFORE {event} ON plan_files WHEN {_FROZEN.format(row=row)} BEGIN
  SELECT RAISE(ABORT, '{FROZEN}');
END"""
        objects.append(DatabaseObject("sqlite", "TRIGGER", name, sql, "plan_files"))
    function = f"""CREATE OR REPLACE FUNCTION plan_files_frozen() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $body$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF {_FROZEN.format(row="NEW")} THEN RAISE EXCEPTION '{FROZEN}' USING ERRCODE = 'check_violation'; END IF;
    RETURN NEW;
  END IF;
  IF {_FROZEN.format(row="OLD")} THEN RAISE EXCEPTION '{FROZEN}' USING ERRCODE = 'check_violation'; END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $body$"""
    trigger = (
        "CREATE TRIGGER plan_files_frozen_trigger BEFORE INSERT OR UPDATE OR DELETE ON plan_files"
        " FOR EACH ROW EXECUTE FUNCTION plan_files_frozen()"
    )
    return [
        *objects,
        DatabaseObject("postgresql", "FUNCTION", "plan_files_frozen", function),
        DatabaseObject("postgresql", "TRIGGER", "plan_files_frozen_trigger", trigger, "plan_files"),
    ]


OBJECTS = [
    *_clash(),
    *_frozen(),
    *guards("acts", Act.MOVES),
    *guards("trash_items", TrashItem.MOVES),
    *recorders(Watched("acts", "NEW.verb || ' ' || NEW.id", has_worker=False, error_code=None, error_message="note")),
]
