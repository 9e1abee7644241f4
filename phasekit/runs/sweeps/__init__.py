"""What a sweep describes: its file, the words for its axes, and the tasks that it expands to."""
