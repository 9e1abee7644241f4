"""Who does the work: the runner, its workers, on one machine or many, and how far it has got."""
