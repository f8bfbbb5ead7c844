"""What the page of a plan says about carrying it out, and the same for one act alone."""

from __future__ import annotations

from typing import Any

from accounts.models import Role, User
from duplicates.models import Plan
from frame.templatetags.human import count_words
from trash import switching
from trash.act_results import results_of
from trash.authorising import version_of
from trash.models import Act
from trash.showing import GRACE, RUNS, ShownAct, action_words, as_shown, shown

#: Acts of one plan that its page tells of; there are seldom more than two.
MOST_ACTS = 8


def panel_of(plan: Plan, user: User) -> dict[str, Any]:
    """The context of `acts/_panel.html`."""
    acts = as_shown(list(shown(plan.acts.order_by("-pk"))[:MOST_ACTS]))
    living = next((each for each in acts if each.is_live), None)
    if living is None and plan.status == Plan.Status.AUTHORISED:
        # Its act has ended since the plan was read: both say so in one transaction.
        plan.refresh_from_db(fields=["status"])
    ended = None if living else next((each for each in acts if _is_outcome(each, plan)), None)
    context: dict[str, Any] = {
        "plan": plan,
        "living": living,
        "ended": ended,
        "past": [each for each in acts if each is not living and each is not ended],
        **rights_of(user),
    }
    if living is not None:
        context |= polling(living)
    if ended is not None:
        context["results"] = results_of(ended.act)
    if living is None and plan.status == Plan.Status.READY and plan.remove_count:
        context |= _asking(plan)
    return context


def _is_outcome(each: ShownAct, plan: Plan) -> bool:
    """The one that carried the plan out; where it is ready again, nothing came of any."""
    return plan.status == Plan.Status.DONE and each.act.verb == Act.Verb.ACT


def _asking(plan: Plan) -> dict[str, Any]:
    count = plan.remove_count
    return {
        "is_asking": True,
        "cannot": switching.why_not_act(plan.action),
        "button": action_words(plan, count) % {"count": count_words(count)},
        "version": version_of(plan),
        "is_final": plan.action == "delete",
    }


def alone(each: ShownAct, user: User) -> dict[str, Any]:
    """One act on a page of its own."""
    context: dict[str, Any] = {"shown": each, "act": each.act, "plan": each.act.plan, **rights_of(user)}
    if each.is_live:
        return {**context, **polling(each)}
    return {**context, "results": results_of(each.act)}


def rights_of(user: User) -> dict[str, Any]:
    return {"is_admin": user.may(Role.ADMIN), "is_operator": user.may(Role.OPERATOR)}


def polling(each: ShownAct) -> dict[str, Any]:
    """Often while something moves, seldom while something waits; once it has ended, never."""
    return {"every": "2s" if each.phase in (GRACE, RUNS) else "5s"}
