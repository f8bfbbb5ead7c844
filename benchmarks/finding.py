"""How long do duplicates take to be found, against the finders that people use?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import answers, cold, peers
from benchmarks.goals import Goal
from benchmarks.options import Options
from benchmarks.peers import JDUPES, JDUPES_QUICK, Peer
from benchmarks.product import Installation, installed
from benchmarks.report import Section, table
from benchmarks.timing import Spent, median
from benchmarks.trees import TREES, built

WARM = {"a": Goal(1.0, 1.15), "b": Goal(0.8, 1.0), "c": Goal(1.0, 1.15)}
COLD = {"a": Goal(0.5, 0.8), "b": Goal(0.7, 0.8)}
AGAIN = {"a": Goal(0.35, 0.5)}
#: A peer that took so many times as long as the quickest in the first round is not asked again.
TOO_SLOW, TOO_SLOW_COLD = 3.0, 2.0

EMPTY, SCAN, LIST, SECOND = "empty `manage.py version`", "`scan --now`", "`duplicates --fdupes`", "second `scan --now`"
Figures = dict[str, list[Spent]]


def measure(options: Options) -> Iterator[Section]:
    for name in options.trees:
        with installed(built(name, options.work), options.work) as (ours, pristine):
            race = Race(ours, pristine, options.rounds, peers.present())
            figures = race.run()
            yield Section(f"Tree {name}, warm", _body(name, figures, WARM[name], options))
            if name in COLD and not options.is_quick:
                # Who is slow from memory is slower still from the disk; jdupes stays, for its answer is compared.
                field = [peer for peer in race.peers if peer == JDUPES or peer in race.quick(figures)]
                yield _cold(name, Race(ours, pristine, options.rounds, field, is_cold=True), options)


@dataclass(frozen=True)
class Race:
    """Everybody on one tree, in turn, round by round."""

    ours: Installation
    pristine: Path
    rounds: int
    peers: list[Peer]
    #: Everybody finds the tree on the disk, and the own program in memory: what is compared is how files are read, not
    #: how long an interpreter takes to be loaded.
    is_cold: bool = False

    def run(self) -> Figures:
        figures: Figures = defaultdict(list)
        field = self.peers
        for number in range(self.rounds):
            contenders = [self._ours, *(self._peer(peer) for peer in field)]
            turn = number % len(contenders)
            for contend in contenders[turn:] + contenders[:turn]:
                self._prepare()
                contend(figures)
            field = self.quick(figures)
        answers.compare(self.ours.listing, JDUPES.listing(self.ours.scratch), self.ours.tree.name)
        return figures

    def quick(self, figures: Figures) -> list[Peer]:
        """Those who can still be the quickest."""
        first = {peer: figures[peer.name][0].wall for peer in self.peers}
        limit = (TOO_SLOW_COLD if self.is_cold else TOO_SLOW) * min(first.values())
        return [peer for peer in self.peers if first[peer] <= limit or (peer == JDUPES_QUICK and not self.is_cold)]

    def _prepare(self) -> None:
        """Everybody finds the tree where it belongs, whoever ran before and whatever the machine let go of."""
        if self.is_cold:
            cold.drop()
        else:
            cold.warm(self.ours.tree)

    def _peer(self, peer: Peer) -> Callable[[Figures], None]:
        def contend(figures: Figures) -> None:
            if self.is_cold:
                peer.version()
            figures[peer.name].append(peer.run(self.ours.tree, self.ours.scratch))

        return contend

    def _ours(self, figures: Figures) -> None:
        self.ours.renew(self.pristine)
        # Whoever ran before had the memory: an empty run that fetches the program again would flatter the next ones.
        self.ours.warm_up()
        figures[EMPTY].append(self.ours.empty())
        if not self.is_cold:
            # These runs took seconds, in which some machines let go of files that nobody reads. Others begin at once.
            cold.warm(self.ours.tree)
        figures[SCAN].append(self.ours.scan())
        figures[LIST].append(self.ours.duplicates())
        if not self.is_cold:
            figures[SECOND].append(self.ours.scan())


def _cold(name: str, race: Race, options: Options) -> Section:
    title = f"Tree {name}, cold"
    if not cold.can_drop(race.ours.tree):
        return Section(title, "Not measured: the page cache can't be emptied here (it takes root).")
    return Section(title, _body(name, race.run(), COLD[name], options))


def _body(name: str, figures: Figures, goal: Goal, options: Options) -> str:
    empty, asked = median(figures[EMPTY]), [peer for peer in peers.PEERS if peer.name in figures]
    rivals = {peer.name: median(figures[peer.name]) for peer in asked}
    quickest = min(rivals, key=lambda rival: rivals[rival].wall)
    scan = median(figures[SCAN]) - empty
    # By itself: a listing that took less than an empty run took nothing, and no time off the scan.
    whole = scan + (median(figures[LIST]) - empty)
    rows = [
        _row(f"**DedupFS**, {SCAN}", scan, rivals[quickest], goal),
        _row(f"**DedupFS**, {SCAN} and {LIST}", whole, rivals[quickest], None),
    ]
    if SECOND in figures:
        second = median(figures[SECOND]) - empty
        rows.append(
            _row(f"**DedupFS**, {SECOND}, against jdupes -Q", second, rivals[JDUPES_QUICK.name], AGAIN.get(name))
        )
    for peer in sorted(asked, key=lambda peer: rivals[peer.name].wall):
        once = ", one round: too slow" if len(figures[peer.name]) < options.rounds else ""
        rows.append(_row(f"{peer.name} (`{peer.command}`{once})", rivals[peer.name], rivals[quickest], None))
    head = ["finder", "wall s", "CPU s", f"times {quickest}", "stolen s", "goal"]
    return f"{_what(name, empty, options)}\n\n{table(head, rows)}"


def _row(name: str, spent: Spent, measure: Spent, goal: Goal | None) -> list[str]:
    ratio = spent.wall / measure.wall
    verdict = f"{goal}: {goal.judge(ratio)}" if goal else ""
    times = f"**{ratio:.2f}**" if goal else f"{ratio:.2f}"
    return [name, f"{spent.wall:.2f}", f"{spent.cpu:.2f}", times, f"{spent.stolen:.2f}", verdict]


def _what(name: str, empty: Spent, options: Options) -> str:
    return (
        f"{TREES[name].describe}; {options.extent}; the groups were jdupes', to the file. Each first scan has a fresh "
        f"database and stores rows, digests and groups. An {EMPTY}, which loads settings and models and does nothing, "
        f"took {empty.wall:.2f} s ({empty.cpu:.2f} s CPU) in the same loop and is subtracted from each figure of ours. "
        "Stolen is what other machines on the same host took from the cores meanwhile. "
        f"{peers.versions()}"
    )
