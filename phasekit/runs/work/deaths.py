"""Which ensembles kill their workers: those that were being worked on when one died, again and again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from phasekit.runs.store.plan import Group
from phasekit.runs.store.store import Store
from phasekit.runs.work.backends import WorkersLost

#: After so many deaths of its workers an ensemble is run alone, to see whether it is the culprit …
STRIKES = 3
#: … and after so many more, alone, its tasks are run one by one; then the task counts as failed.
STRIKES_ALONE = 2


class Deaths:
    """Counts deaths of workers, by ensemble."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._counts: Counter[str] = Counter()
        self._saved: dict[str, float] = {}  # the time of an ensemble's checkpoint, as it was last handed out or lost

    def handed_out(self, group: str) -> None:
        """Note how far an ensemble had got when it was handed out first."""
        self._saved.setdefault(group, self.store.saved_at(group))

    def suspected(self, group: str) -> bool:
        """Whether an ensemble is to be run with nothing else."""
        return self._counts[group] >= STRIKES

    def proven(self, group: str) -> bool:
        """Whether an ensemble killed its workers alone, too."""
        return self._counts[group] >= STRIKES + STRIKES_ALONE

    def blame(self, groups: Sequence[Group], lost: WorkersLost) -> int:
        """Note which ensembles were being worked on when workers died: their claims were left behind. Count them."""
        claimed = set(os.listdir(self.store.claims))
        running = [group.id for group in groups if group.id in claimed]
        for group in running:
            self.count(group, 1)
        for job in lost.culprits:  # or it lay beside the one that kills on a worker that died: alone, it shows
            self.count(job.group, STRIKES)
        return len(running)

    def count(self, group: str, strikes: int) -> bool:
        """Count deaths of an ensemble's workers, but not if it got further meanwhile, as when a job was pre-empted."""
        saved = self.store.saved_at(group)
        further = saved > self._saved.get(group, saved)
        self._saved[group] = saved
        self._counts[group] = 0 if further else self._counts[group] + strikes
        return not further
