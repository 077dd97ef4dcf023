"""The engine over commits: which commits, their programs and times, and the same as files of asv."""
